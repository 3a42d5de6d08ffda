//! The launcher, as the agent sees it: orders go out, and each sandbox hears of its own init.
//!
//! The launcher is the parent of every init. If it dies, all of them die with it: every sandbox
//! hears the end of its channel, and knows that it is lost.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandboxd_linux::launcher::LauncherConfig;
use sandboxd_linux::protocol::{FromLauncher, Launch, MAX_PACKET};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::lock::lock;
use crate::packets::PacketSocket;

/// How long the launcher may take to end, with the sandboxes that it still has.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The running launcher.
#[derive(Debug)]
pub(crate) struct Launcher {
    socket: Arc<PacketSocket>,
    process: Mutex<Option<Child>>,
    /// Who hears of which init; `None` once the launcher is gone.
    listeners: Arc<Mutex<Option<Listeners>>>,
}

type Listeners = HashMap<u32, UnboundedSender<FromLauncher>>;

impl Launcher {
    /// Starts the launcher. Needs a runtime around it.
    ///
    /// # Errors
    ///
    /// If its program cannot be started.
    pub(crate) fn start(config: &LauncherConfig) -> io::Result<Self> {
        let started = config.start()?;
        let socket = PacketSocket::new(started.socket)?;
        let listeners = Arc::new(Mutex::new(Some(Listeners::new())));
        tokio::spawn(dispatch(Arc::clone(&socket), Arc::clone(&listeners)));
        Ok(Self { socket, process: Mutex::new(Some(started.process)), listeners })
    }

    /// Orders an init. Its answers arrive at the channel until its end; the channel ends early when
    /// the launcher does.
    ///
    /// # Errors
    ///
    /// If the launcher is gone, or too far behind.
    pub(crate) fn launch(
        &self,
        order: &Launch,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<UnboundedReceiver<FromLauncher>> {
        let (sender, receiver) = unbounded_channel();
        let mut listeners = lock(&self.listeners);
        let Some(listeners) = &mut *listeners else { return Err(io::ErrorKind::BrokenPipe.into()) };
        self.socket.send(&order.encode(), descriptors)?;
        listeners.insert(order.number, sender);
        Ok(receiver)
    }

    /// Ends the launcher and every init that is left, and collects its process.
    pub(crate) async fn shut_down(&self) {
        self.socket.shut_down();
        let Some(mut process) = lock(&self.process).take() else { return };
        let deadline = tokio::time::Instant::now() + END_TIMEOUT;
        while !matches!(process.try_wait(), Ok(Some(_)) | Err(_)) {
            if tokio::time::Instant::now() >= deadline {
                tracing::error!("the launcher does not end: it is killed");
                let _ = process.kill();
                let _ = process.wait();
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Hands every answer to the sandbox it is for, until the launcher is gone.
async fn dispatch(socket: Arc<PacketSocket>, listeners: Arc<Mutex<Option<Listeners>>>) {
    let mut buffer = vec![0; MAX_PACKET];
    loop {
        let answer = match socket.receive(&mut buffer).await {
            Ok(received) if received.length > 0 => {
                FromLauncher::decode(&buffer[..received.length]).ok()
            }
            Ok(_) | Err(_) => break,
        };
        let Some(answer) = answer else {
            tracing::error!("the launcher sent a packet that is not well formed");
            continue;
        };
        let (number, last) = match &answer {
            FromLauncher::Launched { number, .. } => (*number, false),
            FromLauncher::Failed { number, .. } | FromLauncher::Ended { number, .. } => {
                (*number, true)
            }
        };
        let mut listeners = lock(&listeners);
        let Some(listeners) = &mut *listeners else { break };
        if let Some(listener) = listeners.get(&number) {
            // A sandbox that stopped listening has nothing left to clean up.
            let _ = listener.send(answer);
        }
        if last {
            listeners.remove(&number);
        }
    }
    *lock(&listeners) = None;
}
