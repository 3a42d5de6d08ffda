//! The listening side: who connects gets the next plan.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::plan::{Counts, Order, Plan};
use crate::relay::{self, Ended};

/// What all connections share.
#[derive(Debug)]
struct Shared {
    agent: PathBuf,
    state: Mutex<State>,
    /// Cuts so far: a connection ends when it changes.
    cut: watch::Sender<u64>,
    stalled: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    plans: VecDeque<Plan>,
    default: Plan,
    counts: Counts,
}

/// A socket at which connections to an agent meet their fates.
#[derive(Debug)]
pub struct Proxy {
    path: PathBuf,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens at `path` for the agent at `agent`. Needs a running tokio runtime.
    ///
    /// # Errors
    ///
    /// If the socket cannot be made.
    pub fn listen(path: PathBuf, agent: PathBuf) -> io::Result<Self> {
        let shared = Shared {
            agent,
            state: Mutex::default(),
            cut: watch::Sender::new(0),
            stalled: watch::Sender::new(false),
        };
        let mut proxy = Self { path, shared: Arc::new(shared), accepting: None };
        proxy.accept()?;
        Ok(proxy)
    }

    /// Does what an order says and returns the numbers after it.
    ///
    /// # Errors
    ///
    /// If the socket cannot be made again.
    pub async fn obey(&mut self, order: Order) -> io::Result<Counts> {
        match order {
            Order::Plans { plans } => self.shared.state().plans = plans.into(),
            Order::Default { plan } => self.shared.state().default = plan,
            Order::Cut => self.shared.cut.send_modify(|cuts| *cuts += 1),
            Order::Stall { on } => {
                self.shared.stalled.send_replace(on);
            }
            Order::Refuse { on: true } => {
                if let Some(accepting) = self.accepting.take() {
                    accepting.abort();
                    // The socket is closed when the task is gone.
                    let _ = accepting.await;
                }
            }
            Order::Refuse { on: false } => {
                if self.accepting.is_none() {
                    std::fs::remove_file(&self.path)?;
                    self.accept()?;
                }
            }
            Order::Count => {}
        }
        Ok(self.shared.state().counts)
    }

    fn accept(&mut self) -> io::Result<()> {
        let listener = UnixListener::bind(&self.path)?;
        let shared = Arc::clone(&self.shared);
        self.accepting = Some(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                shared.state().counts.connections += 1;
                tokio::spawn(connection(Arc::clone(&shared), client));
            }
        }));
        Ok(())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_plan(&self) -> Plan {
        let mut state = self.state();
        state.plans.pop_front().unwrap_or_else(|| state.default.clone())
    }
}

async fn connection(shared: Arc<Shared>, client: UnixStream) {
    let plan = shared.next_plan();
    let mut cut = shared.cut.subscribe();
    let fate = relay::run(client, &shared.agent, &plan, shared.stalled.subscribe());
    let ended = tokio::select! {
        ended = fate => ended,
        _ = cut.changed() => Ended::Cut,
    };
    match ended {
        Ended::Left => {}
        Ended::Cut => shared.state().counts.cuts += 1,
        Ended::Late(late) => {
            shared.state().counts.cuts += 1;
            late.deliver(&plan).await;
            shared.state().counts.late += 1;
        }
    }
    shared.state().counts.ended += 1;
}
