"""Which requests for approval have been answered."""
