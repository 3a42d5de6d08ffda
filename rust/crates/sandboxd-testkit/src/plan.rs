//! What is to happen to one connection, and the orders of the one who tests.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The fate of one connection. Without any field it is relayed faithfully.
///
/// Byte counts are of what the proxy has taken from one side for the other since the connection
/// was made.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Cut when so many bytes of the client have reached the agent; the next is not delivered.
    pub cut_to_agent: Option<u64>,
    /// Cut when so many bytes of the agent have reached the client; the next is not delivered.
    pub cut_to_client: Option<u64>,
    /// Cut at this age, in seconds.
    pub cut_age: Option<f64>,
    /// From so many bytes of the agent on, take them and deliver nothing.
    pub mute_to_client: Option<u64>,
    /// Deliver every piece so many seconds late.
    pub delay: f64,
    /// Deliver no faster than this, in either direction.
    pub bytes_per_second: Option<u64>,
    /// From so many bytes of the client on, hold them back; when it pauses, cut it, and deliver them
    /// all the same, `late_by` seconds later. The client has sent them again by then on another
    /// connection: the agent gets a call twice, and the older copy last.
    pub late_after: Option<u64>,
    /// See `late_after`.
    pub late_by: f64,
}

/// One line of the control stream.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// The fates of the next connections, in the order in which they come; replaces earlier ones.
    Plans { plans: Vec<Plan> },
    /// The fate of connections that have no plan of their own.
    Default { plan: Plan },
    /// Cut every living connection.
    Cut,
    /// Keep all connections open and deliver nothing, or go on.
    Stall { on: bool },
    /// Refuse new connections, as a socket that nobody listens at, or listen again.
    Refuse { on: bool },
    /// Only answer.
    Count,
}

/// The answer to every order: numbers since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Connections that were made.
    pub connections: u64,
    /// Of these, connections that the proxy cut.
    pub cuts: u64,
    /// Connections whose bytes were delivered late.
    pub late: u64,
    /// Connections that have ended.
    pub ended: u64,
}

/// Seconds of a plan as a time; what makes no sense is none.
pub(crate) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_are_written_down() {
        let line =
            r#"{"do": "plans", "plans": [{"cut_to_agent": 5}, {"late_after": 9, "late_by": 0.5}]}"#;
        let plans = vec![
            Plan { cut_to_agent: Some(5), ..Plan::default() },
            Plan { late_after: Some(9), late_by: 0.5, ..Plan::default() },
        ];
        assert_eq!(serde_json::from_str::<Order>(line).unwrap(), Order::Plans { plans });
        let stall = serde_json::from_str::<Order>(r#"{"do": "stall", "on": true}"#).unwrap();
        assert_eq!(stall, Order::Stall { on: true });
    }

    #[test]
    fn a_misspelt_order_is_refused_instead_of_doing_nothing() {
        for line in [r#"{"do": "cutt"}"#, r#"{"do": "default", "plan": {"cut": 1}}"#, "{}"] {
            assert!(serde_json::from_str::<Order>(line).is_err());
        }
    }
}
