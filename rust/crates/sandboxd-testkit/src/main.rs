//! `sandboxd-fault-proxy`: orders as JSON lines on stdin, an answer to each on stdout. Ends with its
//! stdin.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "the answers are what it is for")]

use std::io;
use std::path::PathBuf;

use clap::Parser;
use sandboxd_testkit::{Order, Proxy};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// A Unix socket between client and agent that cuts, delays, stalls and repeats on order.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where clients connect.
    #[arg(long)]
    listen: PathBuf,
    /// The agent's socket.
    #[arg(long)]
    agent: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    let mut proxy = Proxy::listen(arguments.listen, arguments.agent)?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let order: Order = serde_json::from_str(&line)?;
        println!("{}", serde_json::to_string(&proxy.obey(order).await?)?);
    }
    Ok(())
}
