"""What two services need: contracts, bus, store, the agent loop. No service's own logic lives here."""
