"""Words of radiology (`terms.yaml`), and what a text says in them."""
