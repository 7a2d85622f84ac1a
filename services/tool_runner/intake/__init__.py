"""From raw data and rules to canonical cases: in batches that any runner decodes, kept by content."""
