"""The only writers of the ledger. Each is one of three shapes: `open_…`, `claim_…`, `record_…` or `settle_…`."""
