"""Softmax, log-softmax and cross-entropy of whole rows."""

import torch

from attngrad.closed.modes import call


def largest(logits: torch.Tensor) -> torch.Tensor:
    """Return the largest logit of each row, 0 where there is none but -inf."""
    if logits.shape[-1] == 0:
        return logits.new_zeros(*logits.shape[:-1], 1)
    found = logits.amax(dim=-1, keepdim=True)
    return found.masked_fill(found.isneginf(), 0.0)


def top(x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return the largest allowed entry of each row, 0 where there is none."""
    return largest(x.masked_fill(~allowed, -torch.inf))


def shifted(s: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return the logits minus the largest allowed one of their row; -inf where nothing is allowed."""
    # The shift cancels in all that is made of it, so it need not be differentiated.
    logits = s.masked_fill(~allowed, -torch.inf)
    return logits - largest(logits.detach())


def weights(s: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return softmax over the allowed keys; 0 in a row without one."""
    exponentials = shifted(s, allowed).exp()
    total = exponentials.sum(dim=-1, keepdim=True)
    return exponentials / total.masked_fill(total == 0.0, 1.0)


def log_weights(s: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return log-softmax over the allowed keys; -inf elsewhere."""
    differences = shifted(s, allowed)
    total = differences.exp().sum(dim=-1, keepdim=True)
    return differences - total.masked_fill(total == 0.0, 1.0).log()


def through_softmax(p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return J x = p (x - sum p x); J is symmetric, so this serves both directions."""
    return p * (x - (p * x).sum(dim=-1, keepdim=True))


class Softmax(torch.autograd.Function):
    """p = softmax(s) over the allowed keys; saves its output."""

    generate_vmap_rule = True

    @staticmethod
    def forward(s, allowed):
        return weights(s, allowed)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, dp):
        (p,) = ctx.saved_tensors
        return through_softmax(p, dp), None


class ForwardSoftmax(Softmax):
    """Softmax with its derivative in forward mode."""

    @staticmethod
    def jvp(ctx, ts, _):
        (p,) = ctx.saved_tensors
        return through_softmax(p, ts)


def softmax(s: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return softmax over the allowed keys, with its closed-form derivatives."""
    return call(Softmax, ForwardSoftmax, weights, s, allowed)


class LogSoftmax(torch.autograd.Function):
    """log p over the allowed keys; a cotangent on another key is not read, since log p is constant there."""

    generate_vmap_rule = True

    @staticmethod
    def forward(s, allowed):
        return log_weights(s, allowed)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output, inputs[1])
        ctx.save_for_forward(output, inputs[1])

    @staticmethod
    def backward(ctx, dlogp):
        logp, allowed = ctx.saved_tensors
        dlogp = dlogp.masked_fill(~allowed, 0.0)
        return dlogp - logp.exp() * dlogp.sum(dim=-1, keepdim=True), None


class ForwardLogSoftmax(LogSoftmax):
    """Log-softmax with its derivative in forward mode."""

    @staticmethod
    def jvp(ctx, ts, _):
        logp, allowed = ctx.saved_tensors
        mean = (logp.exp() * ts).sum(dim=-1, keepdim=True)
        return (ts - mean).masked_fill(~allowed, 0.0)


def log_softmax(s: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return log-softmax over the allowed keys, with its closed-form derivatives."""
    return call(LogSoftmax, ForwardLogSoftmax, log_weights, s, allowed)


def loss_of_rows(s: torch.Tensor, y: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return -sum y log p of each row, with 0 for what is out of reach and has target 0."""
    logp = log_weights(s, allowed)
    # A target of 0 may meet a log-weight of -inf: on a masked key, or beyond the range of floats. Elsewhere
    # log p stays, as it is the derivative by the target.
    return -(y * logp.masked_fill((y == 0.0) & logp.isneginf(), 0.0)).sum(dim=-1)


class CrossEntropy(torch.autograd.Function):
    """loss = -sum y log p for each row; saves its inputs and forms p again when it is needed."""

    generate_vmap_rule = True

    @staticmethod
    def forward(s, y, allowed):
        return loss_of_rows(s, y, allowed)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, dloss):
        s, y, allowed = ctx.saved_tensors
        dloss, ds, dy = dloss.unsqueeze(-1), None, None
        if ctx.needs_input_grad[0]:
            ds = dloss * (softmax(s, allowed) * y.sum(dim=-1, keepdim=True) - y)
        if ctx.needs_input_grad[1]:
            # A target holds 0 on a key that is not allowed and stays there, so it gets no cotangent.
            dy = -dloss * log_softmax(s, allowed).masked_fill(~allowed, 0.0)
        return ds, dy, None


class ForwardCrossEntropy(CrossEntropy):
    """Cross-entropy with its derivative in forward mode."""

    @staticmethod
    def jvp(ctx, ts, ty, _):
        s, y, allowed = ctx.saved_tensors
        tangent = s.new_zeros(s.shape[:-1])
        if ts is not None:
            gradient = weights(s, allowed) * y.sum(dim=-1, keepdim=True) - y
            tangent = tangent + (gradient * ts).sum(dim=-1)
        if ty is not None:
            logp = log_weights(s, allowed).masked_fill(~allowed, 0.0)
            tangent = tangent - (logp * ty).sum(dim=-1)
        return tangent


def cross_entropy(s: torch.Tensor, y: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of each row over the allowed keys, with its closed-form derivatives."""
    return call(CrossEntropy, ForwardCrossEntropy, loss_of_rows, s, y, allowed)


def tempered(x: torch.Tensor, tau: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return the softmax of x / tau over the allowed keys."""
    return weights(x / tau, allowed)


class SoftmaxTemperature(torch.autograd.Function):
    """p = softmax(x / tau) for logits x that are shifted by a constant of their row; 0-d tau."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, tau, allowed):
        return tempered(x, tau, allowed)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, tau, _ = inputs
        ctx.save_for_backward(output, x, tau)
        ctx.save_for_forward(output, x, tau)

    @staticmethod
    def backward(ctx, dp):
        p, x, tau = ctx.saved_tensors
        through = through_softmax(p, dp)
        return through / tau, -(through * (x / tau)).sum() / tau, None


class ForwardSoftmaxTemperature(SoftmaxTemperature):
    """Softmax at a temperature with its derivative in forward mode."""

    @staticmethod
    def jvp(ctx, tx, ttau, _):
        p, x, tau = ctx.saved_tensors
        tangent = torch.zeros_like(p)
        if tx is not None:
            tangent = tangent + tx / tau
        if ttau is not None:
            tangent = tangent - (x / tau) * (ttau / tau)
        return through_softmax(p, tangent)


def softmax_temperature(x: torch.Tensor, tau: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """Return the softmax of x / tau over the allowed keys, with its closed-form derivatives."""
    return call(SoftmaxTemperature, ForwardSoftmaxTemperature, tempered, x, tau, allowed)
