"""The cost of requests: recorded in the store, limited per session and day, and summed up."""
