//! One process of the launcher, from its start to its end.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandboxd_linux::launcher::LauncherConfig;
use sandboxd_linux::protocol::{FromLauncher, Launch, MAX_PACKET};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::lock::lock;
use crate::packets::PacketSocket;

/// How long the launcher may take to end, with the sandboxes that it still has.
const END_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// Starts a launcher. Needs a runtime around it.
    ///
    /// # Errors
    ///
    /// If its program cannot be started.
    pub(super) fn start(config: &LauncherConfig) -> io::Result<Arc<Self>> {
        let started = config.start()?;
        let running = Arc::new(Self {
            socket: PacketSocket::new(started.socket)?,
            process: Mutex::new(started.process),
            listeners: Mutex::new(Some(Listeners::new())),
            orders: watch::Sender::new(()),
        });
        tokio::spawn(Arc::clone(&running).dispatch());
        Ok(running)
    }

    pub(super) fn is_gone(&self) -> bool {
        lock(&self.listeners).is_none()
    }

    /// Orders an init.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` if the launcher is gone; else if it is too far behind.
    pub(super) fn order(&self, order: &Launch, with: &[BorrowedFd<'_>]) -> io::Result<Order> {
        let (sender, answers) = unbounded_channel();
        let mut listeners = lock(&self.listeners);
        let Some(listeners) = &mut *listeners else { return Err(io::ErrorKind::BrokenPipe.into()) };
        self.socket.send(&order.encode(), with)?;
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
