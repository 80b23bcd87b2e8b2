//! Two processes of each language, and the pairs they form.

use harness::{Lang, Peer, PeerArgs, PeerError, skip_or_panic};

pub(crate) struct Pairs {
    pub(crate) rust: [Peer; 2],
    /// `None` where there is no JVM.
    pub(crate) java: Option<[Peer; 2]>,
}

impl Pairs {
    pub(crate) async fn start(args: &PeerArgs) -> Self {
        let args = &args.clone().optimized();
        let rust = of_rust(args).await;
        let java = match pair(Lang::Java, args).await {
            Ok(java) => Some(java),
            Err(PeerError::Unavailable(why)) => {
                skip_or_panic("Redisson", &why);
                None
            }
            Err(error) => panic!("{error}"),
        };
        Self { rust, java }
    }

    /// Two of Rust, two of Java, and one of each.
    pub(crate) fn all(&self) -> Vec<[&Peer; 2]> {
        let [rust, rust_too] = &self.rust;
        let mut pairs = vec![[rust, rust_too]];
        if let Some([java, java_too]) = &self.java {
            pairs.extend([[java, java_too], [rust, java]]);
        }
        pairs
    }
}

/// Two of Rust.
pub(crate) async fn of_rust(args: &PeerArgs) -> [Peer; 2] {
    let args = &args.clone().optimized();
    pair(Lang::Rust, args).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn pair(lang: Lang, args: &PeerArgs) -> Result<[Peer; 2], PeerError> {
    Ok([Peer::spawn(lang, args).await?, Peer::spawn(lang, args).await?])
}

/// The client in a peer of this language.
pub(crate) fn client_of(lang: Lang) -> &'static str {
    match lang {
        Lang::Rust => "redisson-lock",
        Lang::Java => "Redisson",
        Lang::Python => "redis-py",
    }
}

/// What a pair is called in a table.
pub(crate) fn title(pair: [&Peer; 2]) -> String {
    let [one, other] = pair.map(|peer| client_of(peer.lang()));
    format!("{one}, {other}")
}
