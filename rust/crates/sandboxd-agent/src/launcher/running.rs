//! One process of the launcher, from its start to its end.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandboxd_linux::launcher::LauncherConfig;
use sandboxd_linux::protocol::{FromLauncher, Hello, Launch, MAX_PACKET};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::Instant;

use super::LaunchError;
use crate::lock::lock;
use crate::packets::PacketSocket;

/// How long the launcher may take to end, with the sandboxes that it still has.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a launcher may take to say which build it is of: one that never does is of a build that
/// does not know how.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// A launcher that runs, or has ended.
#[derive(Debug)]
pub(super) struct Running {
    socket: Arc<PacketSocket>,
    process: Mutex<Child>,
    /// Who hears of which init; `None` once the launcher is gone.
    listeners: Mutex<Option<Listeners>>,
    /// Each order holds a receiver.
    orders: watch::Sender<()>,
}

type Listeners = HashMap<u32, UnboundedSender<FromLauncher>>;

/// An init that was ordered. To be kept until nothing of it is left: until then no other launcher is
/// started in place of this one.
#[derive(Debug)]
pub(crate) struct Order {
    answers: UnboundedReceiver<FromLauncher>,
    _held: watch::Receiver<()>,
}

impl Order {
    /// The next answer, until init has ended; `None` after that, or when the launcher is gone.
    pub(crate) async fn answer(&mut self) -> Option<FromLauncher> {
        self.answers.recv().await
    }
}

impl Running {
    /// Starts a launcher, and hears which build it is of. Needs a runtime around it.
    ///
    /// # Errors
    ///
    /// If its program cannot be started, or is of another build; nothing of it is left then.
    pub(super) async fn start(config: &LauncherConfig) -> Result<Arc<Self>, LaunchError> {
        let started = config.start()?;
        let running = Arc::new(Self {
            socket: PacketSocket::new(started.socket)?,
            process: Mutex::new(started.process),
            listeners: Mutex::new(Some(Listeners::new())),
            orders: watch::Sender::new(()),
        });
        if let Err(said) = running.hear_build().await {
            running.shut_down().await;
            return Err(LaunchError::OtherBuild { program: config.program.clone(), said });
        }
        tokio::spawn(Arc::clone(&running).dispatch());
        Ok(running)
    }

    /// Waits for the launcher's first word. An error is what it said instead of our build's, for
    /// people.
    async fn hear_build(&self) -> Result<(), String> {
        let mut buffer = vec![0; MAX_PACKET];
        let first = tokio::time::timeout(HELLO_TIMEOUT, self.socket.receive(&mut buffer)).await;
        let length = match first {
            Ok(Ok(received)) if received.length > 0 => received.length,
            Ok(_) => return Err("it ended without a word".to_owned()),
            Err(_) => return Err("it does not say which".to_owned()),
        };
        let own = Hello::of_this_build();
        match Hello::decode(&buffer[..length]) {
            Some(hello) if hello.understands(&own) => Ok(()),
            Some(hello) => Err(format!(
                "it is {} ({:016x}), this agent is {} ({:016x})",
                hello.release, hello.format, own.release, own.format
            )),
            None => Err("its first word is none that this agent knows".to_owned()),
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        lock(&self.listeners).is_none()
    }

    /// Orders an init.
    ///
    /// # Errors
    ///
    /// If the launcher is gone, or too far behind.
    pub(super) fn order(
        &self,
        order: &Launch,
        with: &[BorrowedFd<'_>],
    ) -> Result<Order, LaunchError> {
        let (sender, answers) = unbounded_channel();
        let mut listeners = lock(&self.listeners);
        let listeners = listeners.as_mut().ok_or(LaunchError::Gone)?;
        self.socket.send(&order.encode(), with).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => LaunchError::Gone,
            _ => error.into(),
        })?;
        listeners.insert(order.number, sender);
        Ok(Order { answers, _held: self.orders.subscribe() })
    }

    /// Waits until nothing is left of the inits that were ordered.
    pub(super) async fn last_order_has_ended(&self) {
        self.orders.closed().await;
    }

    /// Ends the launcher and every init that is left, and collects its process.
    pub(super) async fn shut_down(&self) {
        self.socket.shut_down();
        self.collect(END_TIMEOUT).await;
    }

    /// Collects the process, which ends by itself or else is killed in the end.
    async fn collect(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while matches!(lock(&self.process).try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                tracing::error!("the launcher does not end: it is killed");
                let mut process = lock(&self.process);
                let _ = process.kill();
                let _ = process.wait();
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Hands every answer to the sandbox it is for, until the launcher is gone.
    async fn dispatch(self: Arc<Self>) {
        let mut buffer = vec![0; MAX_PACKET];
        loop {
            match self.socket.receive(&mut buffer).await {
                Ok(received) if received.length > 0 => {
                    match FromLauncher::decode(&buffer[..received.length]) {
                        Ok(answer) => self.tell(answer),
                        Err(error) => tracing::error!(%error, "answer of the launcher"),
                    }
                }
                Ok(_) | Err(_) => break,
            }
        }
        *lock(&self.listeners) = None;
        self.collect(END_TIMEOUT).await;
    }

    fn tell(&self, answer: FromLauncher) {
        let (number, last) = match &answer {
            FromLauncher::Launched { number, .. } => (*number, false),
            FromLauncher::Failed { number, .. } | FromLauncher::Ended { number, .. } => {
                (*number, true)
            }
        };
        let mut listeners = lock(&self.listeners);
        let Some(listeners) = &mut *listeners else { return };
        if let Some(listener) = listeners.get(&number) {
            // A sandbox that stopped listening has nothing left to clean up.
            let _ = listener.send(answer);
        }
        if last {
            listeners.remove(&number);
        }
    }
}
