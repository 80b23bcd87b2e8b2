//! The page for Prometheus, and the dashboard that reads it.

use std::{collections::BTreeSet, fs, net::SocketAddr, path::Path};

use harness::{PATIENCE, RedisServer};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What the module `metrics` lists, as Prometheus names it.
const EXPORTED: [&str; 8] = [
    "redisson_lock_acquire_duration_seconds",
    "redisson_lock_hand_offs_total",
    "redisson_lock_hold_duration_seconds",
    "redisson_lock_holds",
    "redisson_lock_lost_total",
    "redisson_lock_release_failures_total",
    "redisson_lock_renewal_margin_seconds",
    "redisson_lock_waiters",
];

/// The body of the page. `None`: nobody listens yet.
async fn page(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = "GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    Some(body.to_owned())
}

/// The names of the metrics on a page, as its `# TYPE` lines have them, and their labels.
fn metrics(page: &str) -> BTreeSet<(String, String)> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .map(|line| {
            let (name, kind) = line.split_once(' ').expect("a name and a type");
            (name.to_owned(), kind.to_owned())
        })
        .collect()
}

/// Whether a counter of this name is above 0.
fn counted(page: &str, name: &str) -> bool {
    let series = page.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    series.filter_map(|line| line.rsplit_once(' ')).any(|(_, value)| value != "0")
}

/// The words of a query that begin as the names of this crate's metrics do.
fn named(query: &str) -> impl Iterator<Item = &str> {
    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("redisson_lock"))
}

/// All queries of a dashboard.
fn queries<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(query)
                        if name == "expr" || name == "query" || name == "definition" =>
                    {
                        found.push(query)
                    }
                    value => queries(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

fn docs(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The series of a metric: a histogram has three.
fn series((name, kind): &(String, String)) -> Vec<String> {
    match &**kind {
        "histogram" => ["bucket", "sum", "count"].map(|end| format!("{name}_{end}")).into(),
        _ => vec![name.clone()],
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_has_every_metric_and_the_dashboard_names_no_other() {
    let mut server = RedisServer::builder().start();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    prometheus::export(address).expect("a page");
    let url = server.url();
    let shop = tokio::spawn(async move { prometheus::shop(&url).await });

    // A counter is there from the beginning on, at 0.
    let has = |page: &str, name: &str| {
        metrics(page).iter().any(|(metric, _)| metric == name)
            && (!name.ends_with("_total") || counted(page, name))
    };
    let all_but_failures = EXPORTED.iter().filter(|name| !name.contains("failures"));
    let wanted: Vec<_> = all_but_failures.collect();
    loop {
        let page = eventually_page(address).await;
        if wanted.iter().all(|name| has(&page, name)) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    // Releases fail.
    server.kill();
    let page = loop {
        let page = eventually_page(address).await;
        if has(&page, "redisson_lock_release_failures_total") {
            break page;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    shop.abort();

    let exported = metrics(&page);
    let names: Vec<_> = exported.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, EXPORTED);
    // One label for all orders, and the units that the documentation promises.
    assert!(page.contains(r#"lock="order:*""#), "{page}");
    assert!(!page.contains("order:1"), "{page}");
    // The alert on late renewals: a usual margin of 20 s is not interpolated to less than 10 s.
    for bound in ["10", "15", "20"] {
        let bucket = |line: &str| {
            line.starts_with("redisson_lock_renewal_margin_seconds_bucket{")
                && line.contains(&format!("le=\"{bound}\""))
        };
        assert!(page.lines().any(bucket), "no bucket up to {bound} s: {page}");
    }

    let series: BTreeSet<_> = exported.iter().flat_map(series).collect();
    let dashboard: Value = serde_json::from_str(&docs("grafana/redisson-lock.json")).expect("JSON");
    let mut found = Vec::new();
    queries(&dashboard["panels"], &mut found);
    queries(&dashboard["templating"], &mut found);
    let shown: BTreeSet<_> = found.iter().flat_map(|query| named(query)).collect();
    assert!(shown.len() >= EXPORTED.len(), "{shown:?}");
    for name in &shown {
        assert!(series.contains(*name), "the dashboard names {name}, which nobody exports");
    }
    for (name, kind) in &exported {
        let shows = shown
            .iter()
            .any(|shown| self::series(&(name.clone(), kind.clone())).iter().any(|it| it == shown));
        assert!(shows, "no panel shows {name}");
    }
    // So do the alerts and tables of the documentation.
    let page = docs("observability.md");
    for name in named(&page).filter(|name| *name != "redisson_lock") {
        let known = series.contains(name) || EXPORTED.contains(&name);
        assert!(known, "the documentation names {name}, which nobody exports");
    }
}

async fn eventually_page(address: SocketAddr) -> String {
    tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(page) = page(address).await {
                return page;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("a page")
}
