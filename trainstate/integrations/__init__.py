"""Other systems' records, as events of ours."""
