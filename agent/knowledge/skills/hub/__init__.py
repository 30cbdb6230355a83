"""Skills from elsewhere: searched, fetched into quarantine, examined, installed, monitored."""
