"""Scheduled jobs: schedules, claiming of due runs, execution, delivery, and heartbeats."""
