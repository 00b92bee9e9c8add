"""What runs in the process of an implementation: it is loaded, handed cases and watched.

These modules import NumPy and each other alone, so that a child process holds nothing of this library that
the implementation did not ask for. torch is imported only where a case asks for its tensors.
"""
