//! Lua as Redis has it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use mlua::{
    Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, Variadic, VmState,
    chunk::ChunkMode,
};

use crate::commands::{Command, Data, Deed};
use crate::number::{precise, truncated};
use crate::reply::{Answer, Refused, Reply};
use crate::sha1;

/// What Lua itself has that scripts may use. Redis has more: coroutines, code made of texts, and what depends on more than a
/// script's arguments.
const BASICS: [&str; 18] = [
    "assert",
    "error",
    "getmetatable",
    "ipairs",
    "next",
    "pairs",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setmetatable",
    "string",
    "table",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "_VERSION",
];

/// So many instructions are counted at a time.
const INSTRUCTIONS: u32 = 10_000;
/// A script that runs longer than so many times [`INSTRUCTIONS`] would make a real server busy for all.
const LONGEST: u32 = 100;

/// So deep an answer may nest tables. Redis allows about a thousand, until its Lua stack is full.
const DEEPEST: usize = 100;
const TOO_DEEP: Refused = Refused::Borrowed("ERR reached lua stack limit");

/// The version of Redis whose commands and options there are.
const VERSION: &str = "7.0.0";
const VERSION_NUMBER: u32 = 0x0007_0000;

/// The name of every script, in the errors it raises.
const CHUNK: &str = "@user_script";

/// What is easier said in Lua. `pcall` catches as Redis' does: of an error of `redis.call` it answers the text.
const PRELUDE: &str = "
local visible, catch, text_of = ...

local function settle(done, ...)
  if done then
    return true, ...
  end
  local error = ...
  if type(error) == 'userdata' then
    return false, text_of(error)
  end
  local text = type(error) == 'table' and error.err
  if type(text) == 'string' or type(text) == 'number' then
    return false, text
  end
  return false, error
end

visible.pcall = function(...)
  return settle(catch(...))
end

setmetatable(visible, {
  __index = function(_, name)
    error(\"Script attempted to access nonexistent global variable '\" .. tostring(name) .. \"'\", 2)
  end,
})

return setmetatable({}, {
  __index = visible,
  __newindex = function()
    error('Attempt to modify a readonly table', 2)
  end,
})
";

/// An interpreter, and the scripts it has compiled.
pub(crate) struct Interpreter {
    lua: Lua,
    /// What scripts see of the outside.
    visible: Table,
    environment: Table,
    /// `xpcall`, and what it has told of an error.
    run: Function,
    told: Function,
    compiled: HashMap<String, Function>,
    /// How often the running script has run [`INSTRUCTIONS`].
    spent: Arc<AtomicU32>,
}

/// An error that `redis.call` has raised.
#[derive(Debug)]
struct Raised(Refused);

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

impl Interpreter {
    pub(crate) fn new(data: &Arc<Mutex<Data>>) -> Self {
        Self::build(data).expect("an interpreter")
    }

    fn build(data: &Arc<Mutex<Data>>) -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        // A command that is not there is a mistake of the test, which no script is to catch.
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let all = lua.globals();
        let visible = lua.create_table()?;
        for name in BASICS {
            visible.raw_set(name, all.raw_get::<Value>(name)?)?;
        }
        let math: Table = all.raw_get("math")?;
        for random in ["random", "randomseed"] {
            math.raw_set(random, Value::Nil)?;
        }
        visible.raw_set("math", math)?;
        visible.raw_set("redis", redis(&lua, data)?)?;
        let text_of = lua.create_function(|lua, error: Value| lua.create_string(said(&error)))?;
        let catch: Function = all.raw_get("pcall")?;
        let prelude = lua.load(PRELUDE).set_name("@prelude");
        let environment = prelude.call((visible.clone(), catch, text_of))?;
        let run = all.raw_get("xpcall")?;
        let told = lua.create_function(|lua, error: Value| {
            let told = lua.create_table()?;
            told.raw_set("err", lua.create_string(said(&error))?)?;
            told.raw_set("line", line(lua))?;
            Ok(told)
        })?;
        let spent = Arc::new(AtomicU32::new(0));
        let counted = spent.clone();
        lua.set_hook(HookTriggers::new().every_nth_instruction(INSTRUCTIONS), move |_, _| {
            let spent = counted.fetch_add(1, Ordering::Relaxed);
            assert!(spent < LONGEST, "a script does not come to an end");
            Ok(VmState::Continue)
        })?;
        Ok(Self { lua, visible, environment, run, told, compiled: HashMap::new(), spent })
    }

    /// Has the script ready to run.
    pub(crate) fn compile(&mut self, source: &[u8]) -> Result<String, Refused> {
        let sha = sha1(source);
        if !self.compiled.contains_key(&sha) {
            let chunk = self.lua.load(source).set_name(CHUNK).set_mode(ChunkMode::Text);
            let compiled = chunk.set_environment(self.environment.clone()).into_function();
            let compiled = compiled.map_err(|error| match error {
                mlua::Error::SyntaxError { message, .. } => {
                    Refused::from(format!("ERR Error compiling script (new function): {message}"))
                }
                other => panic!("{other}"),
            })?;
            self.compiled.insert(sha.clone(), compiled);
        }
        Ok(sha)
    }

    /// Runs a script that was compiled.
    pub(crate) fn run<A: AsRef<[u8]>>(&self, sha: &str, keys: &[A], args: &[A]) -> Reply {
        self.try_run(sha, keys, args).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_run<A: AsRef<[u8]>>(&self, sha: &str, keys: &[A], args: &[A]) -> mlua::Result<Reply> {
        for (name, words) in [("KEYS", keys), ("ARGV", args)] {
            let table = self.lua.create_table_with_capacity(words.len(), 0)?;
            for word in words {
                table.raw_push(self.lua.create_string(word)?)?;
            }
            self.visible.raw_set(name, table)?;
        }
        self.spent.store(0, Ordering::Relaxed);
        let (done, answer): (bool, Value) = self.run.call((&self.compiled[sha], &self.told))?;
        if done {
            return Ok(reply(&answer, DEEPEST)?.ok_or(TOO_DEEP).into());
        }
        let told: Table = self.lua.unpack(answer)?;
        let mut error: String = told.raw_get::<mlua::LuaString>("err")?.to_string_lossy();
        if let Some(line) = told.raw_get::<Option<usize>>("line")? {
            error += &format!(" script: {sha}, on {CHUNK}:{line}.");
        }
        Ok(Err(error.into()).into())
    }
}

/// The table `redis`.
fn redis(lua: &Lua, data: &Arc<Mutex<Data>>) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    let on = data.clone();
    let call = lua.create_function(move |lua, words: MultiValue| match command(&on, &words) {
        Ok(reply) => value(lua, &reply),
        Err(error) => Err(mlua::Error::external(Raised(error))),
    });
    redis.raw_set("call", call?)?;
    let on = data.clone();
    let pcall = lua.create_function(move |lua, words: MultiValue| match command(&on, &words) {
        Ok(reply) => value(lua, &reply),
        Err(error) => Ok(Value::Table(single(lua, "err", error.as_bytes())?)),
    });
    redis.raw_set("pcall", pcall?)?;
    let status = lua.create_function(|lua, args: Variadic<Value>| match &args[..] {
        [Value::String(text)] => single(lua, "ok", &text.as_bytes()),
        _ => single(lua, "err", b"ERR wrong number or type of arguments"),
    });
    redis.raw_set("status_reply", status?)?;
    let error = lua.create_function(|lua, args: Variadic<Value>| match &args[..] {
        [Value::String(text)] => single(lua, "err", &coded(&text.as_bytes())),
        _ => single(lua, "err", b"ERR wrong number or type of arguments"),
    });
    redis.raw_set("error_reply", error?)?;
    redis.raw_set("REDIS_VERSION", VERSION)?;
    redis.raw_set("REDIS_VERSION_NUM", VERSION_NUMBER)?;
    Ok(redis)
}

fn single(lua: &Lua, field: &str, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(field, lua.create_string(text)?)?;
    Ok(table)
}

/// The error with a code: one without a second word is all text.
fn coded(error: &[u8]) -> Vec<u8> {
    let error = error.strip_prefix(b"-").unwrap_or(error);
    let has_code = error.contains(&b' ');
    let error = error.to_vec();
    if has_code { error } else { [b"ERR ".to_vec(), error].concat() }
}

/// Runs a command of a script.
fn command(data: &Mutex<Data>, words: &MultiValue) -> Answer {
    const NO_WORDS: &str = "ERR Please specify at least one argument for this redis lib call";
    const NO_WORD: &str = "ERR Lua redis lib command arguments must be strings or integers";
    let word = |value: &Value| match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(precise(*number as f64).into()),
        Value::Number(number) => Ok(precise(*number).into()),
        _ => Err(Refused::from(NO_WORD)),
    };
    let words: Vec<Vec<u8>> = words.iter().map(word).collect::<Result<_, _>>()?;
    if words.is_empty() {
        return Err(NO_WORDS.into());
    }
    let mut data = data.lock().expect("no command has panicked");
    let command = Command::find(&words).map_err(|missing| missing.for_script(&data))?;
    let Deed::Run(run) = command.deed else {
        return Err("ERR This Redis command is not allowed from script".into());
    };
    data.refusals.in_script(command.nature, data.script_has_written)?;
    data.script_has_written |= command.nature.writes;
    data.record(&words, true);
    run(&mut data, command.arguments(&words))
}

/// What a command has answered, for a script.
fn value(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Nil => Value::Boolean(false),
        Reply::Int(number) => Value::Number(*number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Status(text) => Value::Table(single(lua, "ok", text)?),
        Reply::Error(text) => Value::Table(single(lua, "err", text.as_bytes())?),
        Reply::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                table.raw_push(value(lua, item)?)?;
            }
            Value::Table(table)
        }
    })
}

/// What a script has answered, for a client. `None`: it nests more than `depth` tables.
fn reply(value: &Value, depth: usize) -> mlua::Result<Option<Reply>> {
    Ok(Some(match value {
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(truncated(*number)),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => {
            if let Value::String(error) = table.raw_get("err")? {
                return Ok(Some(Err(error.to_string_lossy().into()).into()));
            }
            if let Value::String(status) = table.raw_get("ok")? {
                let line = |byte: u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
                let status = status.as_bytes().iter().map(|byte| line(*byte)).collect();
                return Ok(Some(Reply::Status(status)));
            }
            let Some(depth) = depth.checked_sub(1) else { return Ok(None) };
            let mut items = Vec::new();
            loop {
                match table.raw_get(items.len() + 1)? {
                    Value::Nil => break Reply::Array(items),
                    item => match reply(&item, depth)? {
                        Some(item) => items.push(item),
                        None => return Ok(None),
                    },
                }
            }
        }
        _ => Reply::Nil,
    }))
}

/// The text of an error, with its code.
fn said(error: &Value) -> Vec<u8> {
    if let Value::Error(error) = error {
        let raised = error.downcast_ref::<Raised>();
        return raised.map_or_else(|| format!("ERR {error}"), Raised::to_string).into();
    }
    if let Value::Table(table) = error
        && let Ok(Value::String(text)) = table.raw_get("err")
    {
        return text.as_bytes().to_vec();
    }
    let text = error.to_string().unwrap_or_else(|error| error.to_string());
    format!("ERR {text}").into()
}

/// The line of the script that runs.
fn line(lua: &Lua) -> Option<usize> {
    for level in 1.. {
        let here = lua.inspect_stack(level, |frame| {
            let of_script = frame.source().source.as_deref() == Some(CHUNK);
            of_script.then(|| frame.current_line()).flatten()
        });
        if let Some(line) = here? {
            return Some(line);
        }
    }
    None
}
