"""The analytic model of topologies: cost, time and quality of a plan before it runs."""
