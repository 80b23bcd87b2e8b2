mod worlds;

use std::sync::Mutex;

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use super::*;
use crate::{
    options,
    wire::{
        connection::OnBreak,
        drivers,
        script::Reply,
        topology::{sentinels::read_master, slots::ALL_SLOTS},
        url::read_url,
    },
};

const OLD: u16 = 1;
const NEW: u16 = 2;

/// In the form of a sentinel's answer.
fn says(port: u16, epoch: u64, flags: &str) -> View {
    says_of_heir(port, epoch, flags, None)
}

/// The same of one that answers with this port to `GET-MASTER-ADDR-BY-NAME`.
fn says_of_heir(port: u16, epoch: u64, flags: &str, heir: Option<u16>) -> View {
    let fields = [
        ("ip", "h".to_owned()),
        ("port", port.to_string()),
        ("flags", flags.to_owned()),
        ("config-epoch", epoch.to_string()),
    ];
    let text = |text: &str| Reply::Bytes(text.to_owned().into());
    let fields = fields.map(|(field, value)| [text(field), text(&value)]);
    let master = Reply::Array(fields.into_iter().flatten().collect());
    let heir = heir.map(|heir| Reply::Array(vec![text("h"), text(&heir.to_string())]));
    read_master(&master, heir.as_ref(), &Reply::Array(Vec::new()), None).unwrap()
}

fn is(port: u16, epoch: u64) -> ServerMap {
    let master = Server { address: Address::new("h", port), id: None };
    ServerMap { slots: vec![(ALL_SLOTS, master)], nodes: Vec::new(), epoch }
}

fn agree(views: Vec<View>) -> Result<ServerMap, Failure> {
    super::agree(views, Vec::new())
}

#[test]
fn a_master_is_not_trusted_while_another_is_put_in_its_place() {
    let replacing = "s_down,o_down,master,failover_in_progress";
    assert_eq!(agree(vec![says(OLD, 3, "s_down,master"), says(OLD, 3, "master")]), Ok(is(OLD, 3)));
    agree(vec![says(OLD, 3, "master"), says(OLD, 3, replacing)]).unwrap_err();
    agree(vec![says(OLD, 4, replacing)]).unwrap_err();
    // A sentinel whose replicas do not all follow the new master knows the new epoch and names
    // the old master.
    let views = vec![says(NEW, 4, "master"), says(OLD, 4, replacing), says(OLD, 3, "master")];
    assert_eq!(agree(views), Ok(is(NEW, 4)));
}

#[test]
fn the_leader_of_a_failover_is_believed_about_the_new_master_until_others_know_it() {
    let after = |views: &[View]| {
        let mut views = views.to_vec();
        FailoverEpoch::default().check(&mut views, 2, Instant::now())?;
        agree(views)
    };
    let leads = |epoch, heir| says_of_heir(OLD, epoch, "master,failover_in_progress", Some(heir));
    // No replica has become the master yet.
    after(&[leads(3, OLD)]).unwrap_err();
    assert_eq!(after(&[leads(4, NEW)]), Ok(is(NEW, 4)));
    assert_eq!(after(&[says(OLD, 3, "master"), leads(4, NEW)]), Ok(is(NEW, 4)));
    assert_eq!(after(&[leads(4, NEW), says(NEW, 4, "master")]), Ok(is(NEW, 4)));
    // The failover has ended between its two answers.
    assert_eq!(after(&[says_of_heir(NEW, 4, "master", Some(OLD))]), Ok(is(NEW, 4)));
    // Others have led back. It has heard the epoch, and goes on waiting for its replicas.
    assert_eq!(after(&[leads(5, NEW), says(OLD, 5, "master")]), Ok(is(OLD, 5)));
}

#[test]
fn sources_that_are_far_away_may_take_as_long_as_a_command_and_no_less_than_a_second() {
    let ms = Duration::from_millis;
    assert_eq!(next_patience(None, ms(10_000)), ms(10_000));
    assert_eq!(next_patience(Some(ms(400)), ms(10_000)), ms(1_600));
    assert_eq!(next_patience(Some(ms(9_000)), ms(10_000)), ms(10_000));
    for took in [None, Some(ms(1)), Some(ms(900))] {
        assert_eq!(next_patience(took, ms(100)), ASK_TIMEOUT);
    }
}

/// Nodes of a cluster that answer `CLUSTER NODES`, each with a view and a delay of its own.
struct FakeCluster {
    ports: Vec<u16>,
    answers: Arc<Mutex<Vec<(String, Duration)>>>,
}

impl FakeCluster {
    /// All nodes know all others. Node 0 has all slots, at epoch 2.
    async fn start(nodes: usize) -> Self {
        let (mut ports, mut listeners) = (Vec::new(), Vec::new());
        for _ in 0..nodes {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            ports.push(listener.local_addr().unwrap().port());
            listeners.push(listener);
        }
        let nobody = (String::new(), Duration::ZERO);
        let cluster = Self { ports, answers: Arc::new(Mutex::new(vec![nobody; nodes])) };
        for (node, listener) in listeners.into_iter().enumerate() {
            cluster.say(node, 2, 0, Duration::ZERO);
            let answers = cluster.answers.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, node, answers.clone()));
                }
            });
        }
        cluster
    }

    /// From now on the node names this owner of all slots, and takes so long for it.
    fn say(&self, node: usize, epoch: u64, owner: usize, delay: Duration) {
        let line = |(at, port): (usize, &u16)| {
            let (epoch, slots) = if at == owner { (epoch, " 0-16383") } else { (0, "") };
            let own = if at == node { "myself," } else { "" };
            format!("n{at} 127.0.0.1:{port}@1 {own}master - 0 0 {epoch} connected{slots}\n")
        };
        let view = self.ports.iter().enumerate().map(line).collect();
        self.answers.lock().unwrap()[node] = (view, delay);
    }

    /// Each node has another id from now on, and knows no other: `CLUSTER RESET HARD`.
    fn reset(&self) {
        for (node, (view, _)) in self.answers.lock().unwrap().iter_mut().enumerate() {
            *view = format!("m{node} :0@1 myself,master - 0 0 0 connected\n");
        }
    }

    /// Of a client with the addresses of all.
    fn discovery(&self) -> Discovery {
        self.discovery_by(&self.ports)
    }

    fn discovery_by(&self, ports: &[u16]) -> Discovery {
        let others: Vec<_> =
            ports[1..].iter().map(|port| format!("node=127.0.0.1:{port}")).collect();
        let url = format!("redis-cluster://127.0.0.1:{}?{}", ports[0], others.join("&"));
        let driver = drivers::new(options::Driver::default(), None).unwrap();
        let settings = ConnectionSettings::for_tests(driver, OnBreak::Reconnect);
        Discovery::new(&read_url(&url).unwrap(), &settings)
    }

    /// Which node is the owner of the slots by the next answers.
    async fn owner(&self, discovery: &mut Discovery) -> usize {
        let map = discovery.ask().await.unwrap();
        let [(_, master)] = &map.slots[..] else { panic!("{map:?}") };
        self.ports.iter().position(|port| *port == master.address.port).unwrap()
    }
}

/// One connection to such a node.
async fn serve(stream: TcpStream, node: usize, answers: Arc<Mutex<Vec<(String, Duration)>>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut words = Vec::new();
        let Some(count) = read_number(&mut stream).await else { return };
        for _ in 0..count {
            let Some(_) = read_number(&mut stream).await else { return };
            let mut word = String::new();
            stream.read_line(&mut word).await.unwrap();
            words.push(word.trim().to_uppercase());
        }
        let answer = match &*words[0] {
            "CLUSTER" => {
                let (view, delay) = answers.lock().unwrap()[node].clone();
                sleep(delay).await;
                format!("${}\r\n{view}\r\n", view.len())
            }
            "PING" => "+PONG\r\n".to_owned(),
            _ => "-ERR unknown command\r\n".to_owned(),
        };
        if stream.get_mut().write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The number of a line such as `*2` or `$4`.
async fn read_number(stream: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.trim().get(1..)?.parse().ok()
}

/// A node that was cut off from the others answers alone.
#[tokio::test]
async fn a_node_that_has_not_heard_of_a_failover_leads_nobody_back() {
    let cluster = FakeCluster::start(2).await;
    let mut discovery = cluster.discovery();
    assert_eq!(cluster.owner(&mut discovery).await, 0);
    for node in 0..2 {
        cluster.say(node, 3, 1, Duration::ZERO);
    }
    assert_eq!(cluster.owner(&mut discovery).await, 1);
    cluster.say(0, 2, 0, Duration::ZERO);
    cluster.say(1, 3, 1, Duration::MAX);
    for _ in 0..3 {
        assert_eq!(cluster.owner(&mut discovery).await, 1);
    }
}

/// A network that drops all connections ends them at the same time.
#[tokio::test]
async fn connections_that_have_ended_cost_no_round_of_questions() {
    let cluster = FakeCluster::start(3).await;
    let mut discovery = cluster.discovery();
    assert_eq!(cluster.owner(&mut discovery).await, 0);
    for (_, session) in &discovery.sources {
        let Some(session) = session else { continue };
        session.abandon();
        session.end().await;
    }
    assert_eq!(cluster.owner(&mut discovery).await, 0);
}

#[tokio::test]
async fn an_answer_that_comes_late_counts_the_next_time() {
    let cluster = FakeCluster::start(3).await;
    let late = 10 * REST_TIMEOUT;
    cluster.say(2, 3, 2, late);
    let mut discovery = cluster.discovery();
    for _ in 0..20 {
        if cluster.owner(&mut discovery).await == 2 {
            return;
        }
        sleep(late).await;
    }
    panic!("the late answers are dropped");
}

#[tokio::test]
async fn nodes_beyond_those_that_always_answer_are_asked_too() {
    let cluster = FakeCluster::start(ASKED + 3).await;
    let mut discovery = cluster.discovery();
    assert_eq!(cluster.owner(&mut discovery).await, 0);
    cluster.say(ASKED + 1, 3, 1, Duration::ZERO);
    for _ in 0..200 {
        if cluster.owner(&mut discovery).await == 1 {
            return;
        }
    }
    panic!("one of them is never asked");
}

#[tokio::test]
async fn a_cluster_that_is_reset_says_so_and_may_come_back() {
    for nodes in [ASKED + 1, ASKED + 3, 3 * ASKED] {
        let cluster = FakeCluster::start(nodes).await;
        let mut discovery = cluster.discovery_by(&cluster.ports[..1]);
        assert_eq!(cluster.owner(&mut discovery).await, 0);
        assert_eq!(cluster.owner(&mut discovery).await, 0);
        cluster.reset();
        for _ in 0..3 {
            discovery.ask().await.unwrap_err();
        }
        for node in 0..nodes {
            cluster.say(node, 3, 1, Duration::ZERO);
        }
        assert_eq!(cluster.owner(&mut discovery).await, 1);
    }
}

/// As when slots are given away without a new epoch.
#[tokio::test]
async fn an_owner_that_says_it_has_no_slots_has_none() {
    let cluster = FakeCluster::start(3).await;
    let mut discovery = cluster.discovery();
    assert_eq!(cluster.owner(&mut discovery).await, 0);
    for node in 0..3 {
        cluster.say(node, 1, 1, Duration::ZERO);
    }
    // It is told by all, and by the owner with an epoch from before.
    assert_eq!(cluster.owner(&mut discovery).await, 0);
    {
        let (by_owner, _) = &mut cluster.answers.lock().unwrap()[0];
        *by_owner = by_owner.replacen(" 0 0 0 connected", " 0 0 2 connected", 1);
    }
    assert_eq!(cluster.owner(&mut discovery).await, 1);
}
