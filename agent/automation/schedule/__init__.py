"""Jobs on time: schedules, jobs, claims, runs, delivery, heartbeat."""
