"""An agent: a role as data, one loop for all, a core that decides, a check that judges."""
