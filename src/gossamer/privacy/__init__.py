"""What is promised and what it costs: budget, schedule, accountants, certificate, budget file."""
