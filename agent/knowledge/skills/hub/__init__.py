"""Skills from elsewhere: looked for, fetched into quarantine, examined, installed, watched."""
