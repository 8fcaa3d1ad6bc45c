"""The process that runs Python tasks for an agent: python -m cascade.executor."""
