"""OpsLedger: the desk where people settle automation actions whose outcome nobody knows."""
