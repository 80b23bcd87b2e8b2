//! [`Plan`]: what happens in a world.

use std::time::Duration;

use fastrand::Rng;
use futures::future::join_all;
use tokio::time::{Instant, sleep};

use super::{
    network::Network,
    sentinels::{OTHER, OWN, Truth},
};

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// How many sentinels each deployment has.
    pub(super) sizes: [usize; 2],
    /// The places that the client is told of.
    pub(super) configured: Vec<usize>,
    /// One after the other. The client begins during the first one.
    episodes: Vec<Episode>,
}

/// Events, and when each happens. Afterwards all is well for a while. All times are tenths of a second.
#[derive(Clone, Debug)]
struct Episode {
    lasts: u64,
    events: Vec<(u64, Event)>,
    /// How long after each other sentinels come back.
    apart: u64,
}

/// What happens to the sentinels at these places.
#[derive(Clone, Debug)]
enum Event {
    /// They hear nothing of their peers.
    CutOff(Vec<usize>),
    /// The client hears nothing of them.
    Silent(Vec<usize>),
    /// The client hears none of its own deployment.
    Away,
    /// So long after each other.
    Reset(Vec<usize>, u64),
    /// With an empty state, so long after each other.
    SetUpAnew(Vec<usize>, u64),
    /// To the other deployment. It is reset with those that it leaves, so long after each other.
    Moved(usize, Option<u64>),
    /// All that were moved. Those that they leave are reset.
    MovedBack,
    /// Its address belongs to a new one of the other deployment.
    Reassigned(usize),
    /// The master of that deployment is replaced. It lasts so long.
    FailOver(usize, u64),
}

impl Plan {
    pub(super) fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let sizes = [rng.usize(3..=5), rng.usize(3..=5)];
        let mut configured: Vec<_> = (0..sizes[OWN]).collect();
        rng.shuffle(&mut configured);
        if rng.u8(0..3) == 0 {
            configured.truncate(rng.usize(1..=sizes[OWN]));
        }
        let episodes = (0..rng.usize(1..6)).map(|_| Episode::draw(&mut rng, sizes)).collect();
        Self { seed, sizes, configured, episodes }
    }

    /// The same without one of the things that happen, for each of them.
    pub(super) fn shorter(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for at in (0..self.episodes.len()).rev() {
            let mut plan = self.clone();
            let episode = plan.episodes.remove(at);
            all.push(plan);
            for n in 0..episode.events.len() {
                let mut plan = self.clone();
                plan.episodes[at].events.remove(n);
                all.push(plan);
            }
        }
        all
    }

    pub(super) async fn play(&self, network: &Network) {
        let mut rng = Rng::with_seed(!self.seed);
        let talk = async {
            for second in 0.. {
                sleep(tenths(10)).await;
                network.lock().tell_each_other(second);
            }
        };
        let script = async {
            for episode in &self.episodes {
                episode.play(self, network, &mut rng).await;
            }
        };
        tokio::select! {
            biased;
            () = script => {}
            () = talk => {}
        }
    }
}

impl Episode {
    fn draw(rng: &mut Rng, [own, other]: [usize; 2]) -> Self {
        let lasts = if rng.bool() { rng.u64(5..100) } else { rng.u64(100..900) };
        let all = own + other;
        let (cuts, silences, changes) = (rng.u8(0..4) == 0, rng.bool(), rng.u8(0..4) > 0);
        let mut events = Vec::new();
        if cuts {
            events.push((rng.u64(0..lasts), Event::CutOff(some(rng, all))));
        }
        if silences {
            let silence = if rng.bool() { Event::Away } else { Event::Silent(some(rng, all)) };
            events.push((rng.u64(0..1 + lasts / 2), silence));
        }
        if changes {
            // Those that are reset while they hear no peers know nobody for as long as that lasts.
            let change = match rng.u8(if cuts { 3 } else { 0 }..8) {
                0 => Event::Reset(some(rng, own), apart(rng, 50)),
                1 | 2 => Event::Reset((0..all).collect(), 0),
                3 => Event::SetUpAnew(some(rng, own), apart(rng, 100)),
                4 | 5 => {
                    let resets = !cuts && rng.bool();
                    Event::Moved(rng.usize(0..own), resets.then(|| apart(rng, 40)))
                }
                6 => Event::MovedBack,
                _ => Event::Reassigned(rng.usize(0..own)),
            };
            events.push((rng.u64(0..lasts), change));
        }
        for _ in 0..rng.usize(0..3) {
            let of = if rng.u8(0..3) == 0 { OTHER } else { OWN };
            events.push((rng.u64(0..lasts), Event::FailOver(of, rng.u64(1..60))));
        }
        Self { lasts, events, apart: apart(rng, 60) }
    }

    async fn play(&self, plan: &Plan, network: &Network, rng: &mut Rng) {
        network.lock().due = None;
        let events = join_all(self.events.iter().map(|(at, event)| {
            let mut rng = rng.fork();
            async move {
                sleep(tenths(*at)).await;
                event.happen(plan, network, &mut rng).await;
            }
        }));
        futures::join!(events, sleep(tenths(self.lasts)));
        let mut places: Vec<_> = (0..network.lock().sentinels.len()).collect();
        rng.shuffle(&mut places);
        for at in places {
            if network.lock().heal(at, rng) {
                sleep(tenths(self.apart)).await;
            }
        }
        // Where it knows these, it need not wait until others are believed.
        let forgets = |event: &Event| matches!(event, Event::SetUpAnew(..) | Event::Reset(..));
        let settles = if self.events.iter().any(|(_, event)| forgets(event)) { 400 } else { 100 };
        network.lock().is_well(Instant::now() + tenths(settles));
        sleep(tenths(settles + 60)).await;
    }
}

impl Event {
    async fn happen(&self, plan: &Plan, network: &Network, rng: &mut Rng) {
        let truth = || network.lock();
        match self {
            Self::CutOff(places) => {
                truth().at_each(places, "hears no peers", |one| one.is_cut_off = true);
            }
            Self::Silent(places) => {
                truth().at_each(places, "is not heard", |one| one.is_silent = true);
            }
            Self::Away => {
                let own = truth().members(OWN);
                truth().at_each(&own, "is not heard", |one| one.is_silent = true);
            }
            Self::Reset(places, apart) => reset(places, *apart, network).await,
            Self::SetUpAnew(places, apart) => {
                for at in places {
                    truth().set_up_anew(*at);
                    sleep(tenths(*apart)).await;
                }
            }
            Self::Moved(at, resets) => {
                let is_moved = truth().move_away(*at, plan);
                if let Some(apart) = resets.filter(|_| is_moved) {
                    let all: Vec<_> = [*at].into_iter().chain(truth().members(OWN)).collect();
                    reset(&all, apart, network).await;
                }
            }
            Self::MovedBack => {
                let stay = truth().move_back(plan);
                reset(&stay, 30, network).await;
            }
            Self::Reassigned(at) => truth().reassign(*at, plan),
            Self::FailOver(of, lasts) => {
                let leader = truth().begin_failover(*of, rng);
                if let Some(leader) = leader {
                    sleep(tenths(*lasts)).await;
                    truth().end_failover(leader);
                }
            }
        }
    }
}

impl Truth {
    /// Whether something was wrong with it.
    fn heal(&mut self, at: usize, rng: &mut Rng) -> bool {
        let one = &mut self.sentinels[at];
        let is_wrong = one.is_cut_off || one.is_silent;
        (one.is_cut_off, one.is_silent) = (false, false);
        one.delay = Duration::from_millis(rng.u64(1..12));
        if is_wrong {
            self.at_each(&[at], "is back", |_| ());
        }
        is_wrong
    }

    fn is_well(&mut self, due: Instant) {
        self.due = Some(due);
        self.say("all is well");
    }

    /// Whether most of the configured addresses, and most of the sentinels that there were, stay.
    fn may_lose(&self, at: usize, plan: &Plan) -> bool {
        let mut stay = self.members(OWN);
        stay.retain(|place| *place != at);
        let configured = plan.configured.iter().filter(|place| stay.contains(place)).count();
        self.sentinels[at].of == OWN
            && 2 * configured > plan.configured.len()
            && 2 * stay.len() > plan.sizes[OWN]
            && self.is_spare(at)
    }
}

/// What a plan asks for, where the client could not know better.
impl Truth {
    fn set_up_anew(&mut self, at: usize) {
        if self.sentinels[at].of == OWN && self.is_spare(at) {
            self.replace(at, OWN);
        }
    }

    fn reassign(&mut self, at: usize, plan: &Plan) {
        if self.may_lose(at, plan) {
            self.replace(at, OTHER);
        }
    }

    fn move_away(&mut self, at: usize, plan: &Plan) -> bool {
        let may = self.may_lose(at, plan) && self.listed_by_both() == 0;
        if may {
            self.move_to(at, OTHER);
        }
        may
    }

    /// Returns those that these leave.
    fn move_back(&mut self, plan: &Plan) -> Vec<usize> {
        let mut back = self.members(OTHER);
        back.retain(|at| *at < plan.sizes[OWN] && self.is_spare(*at));
        back.iter().for_each(|at| self.move_to(*at, OWN));
        if back.is_empty() { back } else { self.members(OTHER) }
    }
}

async fn reset(places: &[usize], apart: u64, network: &Network) {
    for at in places {
        network.lock().reset(*at);
        sleep(tenths(apart)).await;
    }
}

fn some(rng: &mut Rng, of: usize) -> Vec<usize> {
    let mut places: Vec<_> = (0..of).collect();
    rng.shuffle(&mut places);
    places.truncate(rng.usize(1..=of));
    places
}

/// A script leaves no time between.
fn apart(rng: &mut Rng, most: u64) -> u64 {
    if rng.bool() { 0 } else { rng.u64(0..most) }
}

fn tenths(n: u64) -> Duration {
    Duration::from_millis(100 * n)
}
