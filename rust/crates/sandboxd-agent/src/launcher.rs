//! The launcher, as the agent sees it: orders go out, and each sandbox hears of its own init.
//!
//! The launcher is the parent of every init. If it dies, all of them die with it: every sandbox
//! hears the end of its channel, and knows that it is lost. The next order starts another launcher,
//! once nothing of those sandboxes is left: it hands out the same ids.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sandboxd_linux::launcher::LauncherConfig;
use sandboxd_linux::protocol::Launch;

use crate::lock::lock;

mod restarts;
mod running;

use restarts::Restarts;
pub(crate) use running::Order;
use running::Running;

/// How long an order may wait for a launcher.
const RESTART_PATIENCE: Duration = Duration::from_secs(15);

/// The launcher of this agent.
#[derive(Debug)]
pub(crate) struct Launcher {
    config: LauncherConfig,
    running: Mutex<Arc<Running>>,
    /// Held while another one is started, so that one of many orders does it.
    restarts: tokio::sync::Mutex<Restarts>,
}

impl Launcher {
    /// Starts the launcher. Needs a runtime around it.
    ///
    /// # Errors
    ///
    /// If its program cannot be started.
    pub(crate) fn start(config: LauncherConfig) -> io::Result<Self> {
        let running = Running::start(&config)?;
        let restarts = tokio::sync::Mutex::default();
        Ok(Self { config, running: Mutex::new(running), restarts })
    }

    /// Orders an init, after starting another launcher if that is needed.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` if the launcher is gone, and no other one has taken its place in time; else why
    /// the order cannot be sent, or the launcher not be started.
    pub(crate) async fn launch(
        &self,
        order: &Launch,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<Order> {
        let running = self.current();
        let running = if running.is_gone() {
            let restarted = tokio::time::timeout(RESTART_PATIENCE, self.restarted());
            restarted.await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))??
        } else {
            running
        };
        running.order(order, descriptors)
    }

    /// Ends the launcher and every init that is left, and collects its process.
    pub(crate) async fn shut_down(&self) {
        self.current().shut_down().await;
    }

    fn current(&self) -> Arc<Running> {
        Arc::clone(&lock(&self.running))
    }

    async fn restarted(&self) -> io::Result<Arc<Running>> {
        let mut restarts = self.restarts.lock().await;
        let gone = self.current();
        if !gone.is_gone() {
            return Ok(gone);
        }
        gone.last_order_has_ended().await;
        tokio::time::sleep_until(restarts.next(Instant::now()).into()).await;
        let running = Running::start(&self.config)?;
        restarts.note(Instant::now());
        tracing::warn!("the launcher had died: another one is started");
        *lock(&self.running) = Arc::clone(&running);
        Ok(running)
    }
}
