"""From a plan to a running answer: what decides when and how it is sampled."""
