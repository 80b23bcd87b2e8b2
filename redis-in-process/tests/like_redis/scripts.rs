//! The scripts that are run, and what they are called with.

/// A script, and words for its keys and arguments, which [`crate::draw`] fills.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    /// For each call one of these is drawn: the keys and the arguments.
    pub(crate) calls: &'static [(&'static str, &'static str)],
}

macro_rules! ours {
    ($($name:literal $(: $keys:literal, $args:literal)+;)*) => {
        /// Those of `lua/`.
        pub(crate) const OURS: &[Sample] = &[$(Sample {
            name: $name,
            source: include_str!(concat!("../../../lua/", $name, ".lua")),
            calls: &[$(($keys, $args)),+],
        }),*];
    };
}

ours! {
    "reentrant/acquire": "lock", "holder lease not_after";
    "reentrant/combine":
        "lock", "publish 0 0 not_after holder lease":
        "lock", "publish 1 1 not_after holder channel":
        "lock", "publish 0 1 not_after holder count":
        "lock other", "publish 1 1 not_after holder holder channel lease":
        "lock other any", "publish 0 0 not_after holder holder holder lease lease lease":
        "other lock any lock", "publish 1 2 not_after holder holder holder holder channel count lease";
    "reentrant/extend": "lock", "holder lease channel numsub";
    "reentrant/force_unlock": "lock", "not_after channel publish";
    "reentrant/inspect": "lock", "some": "lock", "some holder";
    "reentrant/swap": "lock", "holder lease not_after holder";
    "reentrant/reenter": "lock", "holder lease not_after count";
    "reentrant/release": "lock", "holder count channel publish";
    "reentrant/renew":
        "lock", "holder lease":
        "lock other any", "holder holder holder lease":
        "lock other any", "holder holder holder lease lease lease";
    "fenced/acquire": "lock token", "holder lease not_after";
    "fenced/swap": "lock token", "holder lease not_after holder";
    "fenced/token": "token", "";
    "read/acquire":
        "lock timeout", "holder lease not_after under":
        "lock", "timeout holder lease not_after under";
    "read/force_unlock": "lock", "not_after channel publish";
    "read/reenter":
        "lock timeout", "holder lease not_after count":
        "lock", "timeout holder lease not_after count";
    "read/release":
        "lock timeout", "holder count channel publish":
        "lock", "timeout holder count channel publish";
    "read/renew":
        "lock timeout", "holder lease":
        "lock", "timeout holder lease":
        "lock other timeout timeout", "holder holder lease":
        "lock other timeout timeout", "holder holder lease lease";
    "read/renew_apart": "timeout", "lease";
    "write/acquire": "lock", "writer lease not_after";
    "write/force_unlock": "lock", "not_after channel publish";
    "write/release": "lock", "writer count channel publish";
    "fair/acquire": "lock queue deadlines", "holder lease not_after wait theirs stand channel publish";
    "plain/acquire": "any", "holder lease not_after";
    "plain/force_unlock": "any", "not_after channel publish";
    "plain/inspect": "any", "";
    "plain/prolong": "any", "holder lease not_after";
    "plain/release": "any", "holder channel publish";
    "plain/renew":
        "any other lock", "holder holder holder lease":
        "any other lock", "holder holder holder lease lease lease";
    "fair/force_unlock": "lock queue deadlines", "not_after wait channel publish";
    "fair/inspect": "lock queue deadlines", "wait some";
    "fair/release": "lock queue deadlines", "holder count wait channel publish";
    "fair/withdraw": "lock queue deadlines", "holder wait channel publish";
    "counter/cancel": "requests", "request lease";
    "counter/read": "permits", "";
    "counter/try_set":
        "permits requests", "request some not_after lease channel publish some":
        "permits requests", "request some not_after lease channel publish 1 request":
        "permits requests deadlines", "request some not_after lease channel publish some";
    "semaphore/acquire":
        "permits requests", "request some not_after lease":
        "permits requests", "request some not_after lease request request";
    "semaphore/drain":
        "permits requests", "request some not_after lease":
        "permits requests", "request small not_after lease request";
    "semaphore/release":
        "permits requests", "request some not_after lease channel publish 0":
        "permits requests", "request small not_after lease channel publish 1 request";
    "semaphore/withdraw": "permits requests", "request some lease channel publish";
    "expirable/acquire":
        "permits requests deadlines", "request lease not_after channel publish 1 permit":
        "permits requests deadlines", "request lease not_after channel publish 2 permit permit request";
    "expirable/release":
        "permits requests deadlines", "request empty lease channel publish each 1 permit":
        "permits requests deadlines", "request empty lease channel publish all 2 permit permit request":
        "permits requests deadlines", "empty request lease channel publish each 2 permit permit request request";
    "expirable/change":
        "permits requests deadlines", "request some not_after lease channel publish by":
        "permits requests deadlines", "request small not_after lease channel publish to request";
    "expirable/renew":
        "deadlines", "permit lease":
        "deadlines other", "permit permit lease":
        "deadlines other", "permit permit lease lease";
    "expirable/set_lease": "deadlines", "permit lease not_after";
    "expirable/remaining": "deadlines", "permit permit";
    "expirable/inspect": "permits deadlines", "some";
    "latch/count_down":
        "permits requests", "request not_after lease channel publish":
        "permits requests", "request not_after lease channel publish request request";
    "asking/ask":
        "requests", "lease channel publish holder":
        "requests", "lease channel publish holder request holder";
    "asking/asked":
        "requests", "holder":
        "requests", "request";
    "announcement/read":
        "lock", "holder":
        "lock any other", "holder text holder";
    "announcement/withdraw": "other", "";
    "announcement/write":
        "other", "not_after lease text count 0 app text":
        "other", "not_after lease count count 1 app pid number";
}

macro_rules! others {
    ($($name:literal, $source:literal: $keys:literal, $args:literal;)*) => {
        /// What shows how Lua and Redis speak to each other.
        pub(crate) const OTHERS: &[Sample] =
            &[$(Sample { name: $name, source: $source, calls: &[($keys, $args)] }),*];
    };
}

others! {
    "call", "return redis.call(unpack(ARGV))": "", "command";
    "pcall", "local answer = redis.pcall(unpack(ARGV)) return answer": "", "command";
    "caught", "return {tostring(pcall(redis.call, unpack(ARGV)))}": "", "command";
    "caught and told", "local done, answer = pcall(redis.call, unpack(ARGV)) return {tostring(done), answer}": "", "command";
    "sort of answer", "local answer = redis.pcall(unpack(ARGV)) return {type(answer), #ARGV, answer == false}": "", "command";
    "raises in a function",
        "local function deed()\n  local answer = redis.call(unpack(ARGV))\n  return answer\nend\nlocal answer = deed()\nreturn answer":
        "", "command";
    "raises after a write",
        "redis.call('set', KEYS[1], 'before')\nredis.call('hset', KEYS[1], 'a', 'b')\nredis.call('set', KEYS[1], 'after')": "any", "";
    "fails after a write", "redis.call('del', KEYS[1])\nlocal n = nil\nreturn n + 1": "any", "";
    "raises a text", "redis.call('del', KEYS[1])\nerror('no: ' .. ARGV[1])": "any", "text";
    "raises a table", "error({err = 'MINE ' .. ARGV[1]})": "", "text";
    "raises nothing", "\n\nerror()": "", "";
    "catches its own", "return {tostring(pcall(error, ARGV[1])), select(2, pcall(error, {err = 'MINE it is'}))}": "", "text";
    "compares with nothing", "local n\nif n < 1 then return 1 end": "", "";
    "makes a global", "\nmine = 1": "", "";
    "reads no global", "return mine": "", "";
    "error reply", "return redis.error_reply(ARGV[1])": "", "text";
    "status reply", "return redis.status_reply(ARGV[1])": "", "text";
    "error reply in an array", "return {1, redis.error_reply('MINE ' .. ARGV[1]), 2}": "", "text";
    "no text for a reply", "return {redis.error_reply(1), redis.status_reply()}": "", "";
    "array with a hole", "return {1, 'two', false, {3, nil, 4}, nil, 5}": "", "";
    "table without a sequence", "return {a = 1}": "", "";
    "nothing", "return": "", "";
    "truth", "return {true, false, 1 == 1, nil == false}": "", "";
    "function", "return {1, function() end, 2}": "", "";
    "fractions", "local n = tonumber(ARGV[1]) return {n / 3, -n / 3, n * 1e10, n % 7}": "", "number";
    "number as text", "local n = tonumber(ARGV[1]) return {tostring(n / 3), n * 7 .. '', string.format('%.10f', n / 7)}": "", "number";
    "number as argument", "redis.call('hset', KEYS[1], 'n', tonumber(ARGV[1]) / 3) return redis.call('hget', KEYS[1], 'n')": "plain", "number";
    "great number as argument", "redis.call('set', KEYS[1], tonumber(ARGV[1]) * 2 ^ 40) return redis.call('get', KEYS[1])": "any", "number";
    "score", "redis.call('zadd', KEYS[1], tonumber(ARGV[1]) / 8, ARGV[2]) return redis.call('zscore', KEYS[1], ARGV[2])": "any", "number holder";
    "no text as argument", "return redis.pcall('set', KEYS[1], {})": "any", "";
    "no argument", "return redis.pcall()": "", "";
    "not from a script", "return redis.call('script', 'flush')": "", "";
    "no subcommand", "return redis.call('pubsub', 'nobody')": "", "";
    "too few words", "return redis.call('get')": "", "";
    "counts its words", "return {#KEYS, #ARGV, KEYS[1], ARGV[1]}": "any other", "text text";
    "takes a word", "KEYS[2] = table.remove(ARGV, 1) return {KEYS[1], KEYS[2], ARGV[1] or 'none'}": "any", "text";
    "time", "return redis.call('time')": "", "";
}
