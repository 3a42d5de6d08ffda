//! The direct path: a sans-IO client of the agent.
