"""What Prometheus and probes ask over HTTP: numbers only, never a name of anybody or what anybody said."""
