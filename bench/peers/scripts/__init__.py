"""What had to be written around each peer. These run in the peers' own environments."""
