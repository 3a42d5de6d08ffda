//! The launcher, as the agent sees it: orders go out, and each sandbox hears of its own init.
//!
//! The launcher is the parent of every init. If it dies, all of them die with it: every sandbox
//! hears the end of its channel, and knows that it is lost. The next order starts another launcher,
//! once nothing of those sandboxes is left: it hands out the same ids.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
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

/// Why no init can be ordered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// The launcher is gone, and no other one has taken its place in time.
    #[error("the launcher is gone")]
    Gone,
    /// The program beside the agent is of another build, whose packets would be misread.
    #[error(
        "{} is not of the same build as this agent: {said}; install both from one release, or \
         name the right one with --init", program.display()
    )]
    OtherBuild { program: PathBuf, said: String },
    /// The order cannot be sent, or the launcher not be started.
    #[error(transparent)]
    System(#[from] io::Error),
}

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
    /// If its program cannot be started, or is of another build.
    pub(crate) async fn start(config: LauncherConfig) -> Result<Self, LaunchError> {
        let running = Running::start(&config).await?;
        let restarts = tokio::sync::Mutex::default();
        Ok(Self { config, running: Mutex::new(running), restarts })
    }

    /// Orders an init, after starting another launcher if that is needed.
    ///
    /// # Errors
    ///
    /// Why it cannot be ordered. Nothing was made.
    pub(crate) async fn launch(
        &self,
        order: &Launch,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Order, LaunchError> {
        let running = self.current();
        let running = if running.is_gone() {
            let restarted = tokio::time::timeout(RESTART_PATIENCE, self.restarted());
            restarted.await.map_err(|_| LaunchError::Gone)??
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

    async fn restarted(&self) -> Result<Arc<Running>, LaunchError> {
        let mut restarts = self.restarts.lock().await;
        let gone = self.current();
        if !gone.is_gone() {
            return Ok(gone);
        }
        gone.last_order_has_ended().await;
        tokio::time::sleep_until(restarts.next(Instant::now()).into()).await;
        restarts.note(Instant::now());
        let running = Running::start(&self.config).await?;
        tracing::warn!("the launcher had died: another one is started");
        *lock(&self.running) = Arc::clone(&running);
        Ok(running)
    }
}
