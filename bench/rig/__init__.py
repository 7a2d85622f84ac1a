"""What several benchmarks of the templates share: small data, a template in a workspace, packages on their own."""
