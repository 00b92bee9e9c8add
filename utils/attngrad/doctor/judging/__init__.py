"""What is right and how far off an answer may be: reference answers, error bands, laws, findings."""
