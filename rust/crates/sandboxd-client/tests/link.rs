//! A link over a real socket, with a small agent in a thread at the other end.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sandboxd_client::{ErrorCode, Items, Link, Options, Request};
use sandboxd_proto::frame::{self, Decoder, Frame, Kind, MAX_REQUEST};
use sandboxd_proto::v1;

const FOREVER: Duration = Duration::from_secs(10);

fn options() -> Options {
    Options {
        version: "0.1.0".to_owned(),
        keepalive: Duration::from_millis(50),
        greeting: Duration::from_secs(5),
    }
}

/// The other end of a link.
struct Agent {
    stream: UnixStream,
    decoder: Decoder,
}

impl Agent {
    fn greet(mut stream: UnixStream) -> Self {
        let mut preface = [0; 4];
        stream.read_exact(&mut preface).unwrap();
        assert_eq!(&preface, frame::PREFACE);
        let mut agent = Self { stream, decoder: Decoder::new(MAX_REQUEST) };
        assert_eq!(agent.next().unwrap().kind, Kind::Hello);
        let welcome = v1::Welcome { agent_version: "0.1.0".to_owned(), pid: 1 };
        let mut wire = Vec::new();
        frame::put_message(&mut wire, 0, Kind::Hello, &welcome);
        agent.stream.write_all(&wire).unwrap();
        agent
    }

    /// The next frame that is not a sign of life; `None` at the end.
    fn next(&mut self) -> Option<Frame> {
        loop {
            while let Some(frame) = self.decoder.next_frame().unwrap() {
                if frame.kind != Kind::Ping {
                    return Some(frame);
                }
            }
            let mut chunk = [0; 4096];
            let count = self.stream.read(&mut chunk).ok().filter(|&count| count > 0)?;
            self.decoder.buffer(count).extend_from_slice(&chunk[..count]);
        }
    }

    fn send(&mut self, wire: &[u8]) {
        self.stream.write_all(wire).unwrap();
    }
}

/// A socket that serves one connection, removed with its folder at the end of the test.
struct Served {
    folder: PathBuf,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn new(name: &str, serve: impl FnOnce(UnixStream) + Send + 'static) -> Self {
        let folder = std::env::temp_dir().join(format!("link-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let listener = UnixListener::bind(folder.join("agent.sock")).unwrap();
        let thread = std::thread::spawn(move || serve(listener.accept().unwrap().0));
        Self { folder, thread: Some(thread) }
    }

    fn link(&self) -> Link {
        Link::open(&self.folder.join("agent.sock"), options()).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let ended = self.thread.take().unwrap().join();
        std::fs::remove_dir_all(&self.folder).unwrap();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

fn wait(link: &Link, call: u32) {
    let until = Instant::now() + FOREVER;
    while !link.wait(call, FOREVER).unwrap() {
        assert!(Instant::now() < until, "nothing came");
    }
}

#[test]
fn a_blocking_call_gets_its_reply() {
    let served = Served::new("reply", |stream| {
        let mut agent = Agent::greet(stream);
        let request = agent.next().unwrap();
        let mut wire = Vec::new();
        frame::put_empty(&mut wire, request.call, Kind::Reply);
        agent.send(&wire);
        assert!(agent.next().is_none());
    });
    let link = served.link();
    let call = link.submit(&Request::SandboxesInfo(v1::SandboxesInfoRequest {})).unwrap();
    wait(&link, call);
    assert!(link.take_reply(call).unwrap().unwrap().is_empty());
    drop(link);
}

#[test]
fn a_reader_that_waits_gets_a_large_stream_whole() {
    const SIZE: usize = 5_000_000;
    let served = Served::new("stream", |stream| {
        let mut agent = Agent::greet(stream);
        let call = agent.next().unwrap().call;
        let mut window = frame::WINDOW as usize;
        let mut rest = SIZE;
        while rest > 0 {
            let data = vec![7; rest.min(50_000)];
            let message = v1::FilesReadResponse { data: data.clone().into(), ..Default::default() };
            let mut wire = Vec::new();
            frame::put_message(&mut wire, call, Kind::Event, &message);
            while window < wire.len() {
                let credit = agent.next().unwrap();
                window += frame::read_credit(&credit.body).unwrap() as usize;
            }
            window -= wire.len();
            agent.send(&wire);
            rest -= data.len();
        }
        let mut wire = Vec::new();
        frame::put_empty(&mut wire, call, Kind::End);
        agent.send(&wire);
        while agent.next().is_some() {}
    });
    let link = served.link();
    let call = link.submit(&Request::FilesRead(v1::FilesReadRequest::default())).unwrap();
    let mut size = 0;
    loop {
        wait(&link, call);
        match link.take_items(call).unwrap() {
            Items::Pending => {}
            Items::Some(items) => size += items.iter().map(|body| body.len()).sum::<usize>(),
            Items::End => break,
        }
    }
    assert!(size > SIZE);
    drop(link);
}

#[test]
fn what_the_agent_said_before_it_went_still_counts() {
    let served = Served::new("last-words", |stream| {
        let mut agent = Agent::greet(stream);
        let call = agent.next().unwrap().call;
        let mut wire = Vec::new();
        frame::put_empty(&mut wire, call, Kind::Reply);
        agent.send(&wire);
    });
    let link = served.link();
    let info = Request::SandboxesInfo(v1::SandboxesInfoRequest {});
    let first = link.submit(&info).unwrap();
    let until = Instant::now() + FOREVER;
    while link.agent_pid() == 0 {
        link.on_readable();
        assert!(Instant::now() < until, "no greeting");
    }
    // The agent is gone by now or soon: writing fails, and the first reply must survive that.
    while let Ok(call) = link.submit(&info) {
        link.forget(call);
        assert!(Instant::now() < until, "the end was not noticed");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(link.take_reply(first).unwrap().is_ok());
}

#[test]
fn a_silent_agent_is_given_up_after_three_keepalives() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let served = Served::new("silent", move |stream| {
        let agent = Agent::greet(stream);
        let _ = held.recv();
        drop(agent);
    });
    let link = served.link();
    let call = link.submit(&Request::ExecRun(v1::ExecRunRequest::default())).unwrap();
    wait(&link, call);
    let error = link.take_reply(call).unwrap().unwrap_err();
    assert_eq!((error.code, error.may_have_run), (ErrorCode::ConnectionLost, true));
    drop(release);
}

#[test]
fn a_socket_that_nobody_serves_is_unreachable() {
    let error = Link::open("/nonexistent/agent.sock".as_ref(), options()).unwrap_err();
    assert_eq!((error.code, error.may_have_run), (ErrorCode::AgentUnreachable, false));
}
