"""Moving in from another agent: what it has is found, shown, and taken over; nothing of it is changed."""
