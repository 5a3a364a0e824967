//! What a module in Rust needs to be called by Uniflow: the exports, and a reader of JSON. Copy this
//! file next to yours. It uses nothing but the standard library; with crates, serde_json takes the
//! place of json.

#![allow(dead_code)] // yours need not use all of it

use std::cell::RefCell;

/// An error of your function. It becomes the error of the node.
#[derive(Default)]
pub struct Error {
    pub message: String,
    pub code: String, // for programs; may be empty
    pub status: u16,  // the status of HTTP for a client; 0 if unset
    pub public: bool, // a client may see the message
}

impl From<&str> for Error {
    fn from(message: &str) -> Error {
        Error { message: message.to_string(), ..Error::default() }
    }
}

impl From<String> for Error {
    fn from(message: String) -> Error {
        Error { message, ..Error::default() }
    }
}

thread_local! {
    static INPUT: RefCell<Vec<u8>> = RefCell::new(Vec::new());
    static OUTPUT: RefCell<Vec<u8>> = RefCell::new(Vec::new());
}

/// Returns where the host writes the next n bytes. It may be called again only after they were used.
pub fn alloc(n: usize) -> *mut u8 {
    INPUT.with(|b| {
        let mut b = b.borrow_mut();
        b.resize(n, 0);
        b.as_mut_ptr()
    })
}

/// Calls f with the n bytes that the host has written, and returns where its answer is.
pub fn answer(n: usize, f: impl FnOnce(&str) -> Result<String, Error>) -> u64 {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(|info| host::write_log(3, &info.to_string()))));
    let result = INPUT.with(|b| match std::str::from_utf8(&b.borrow()[..n]) {
        Ok(text) => f(text),
        Err(_) => Err("the input is not UTF-8".into()),
    });
    let (bytes, failed) = match result {
        Ok(text) => (text.into_bytes(), 0),
        Err(e) => (e.to_json().into_bytes(), 1 << 31),
    };
    OUTPUT.with(|b| {
        *b.borrow_mut() = bytes;
        (b.borrow().as_ptr() as u64) << 32 | b.borrow().len() as u64 | failed
    })
}

impl Error {
    fn to_json(&self) -> String {
        let mut s = format!("{{\"message\":{}", quote(&self.message));
        if !self.code.is_empty() {
            s += &format!(",\"code\":{}", quote(&self.code));
        }
        if self.status != 0 {
            s += &format!(",\"status\":{}", self.status);
        }
        if self.public {
            s += ",\"public\":true";
        }
        s + "}"
    }
}

/// Returns a text as JSON writes it.
pub fn quote(text: &str) -> String {
    let mut s = String::with_capacity(text.len() + 2);
    s.push('"');
    for c in text.chars() {
        match c {
            '"' => s += "\\\"",
            '\\' => s += "\\\\",
            c if c < ' ' => s += &format!("\\u{:04x}", c as u32),
            c => s.push(c),
        }
    }
    s.push('"');
    s
}

pub mod host {
    #[link(wasm_import_module = "uniflow")]
    extern "C" {
        fn log(level: u32, ptr: *const u8, n: usize);
        fn now() -> i64;
    }

    /// Writes to the log of the node. Levels: 0 debug, 1 info, 2 warn, 3 error.
    pub fn write_log(level: u32, text: &str) {
        unsafe { log(level, text.as_ptr(), text.len()) }
    }

    /// Returns the time in nanoseconds since 1970.
    pub fn unix_nanos() -> i64 {
        unsafe { now() }
    }
}

/// Exports a function as uniflow_call, and another one that gets the field config.
#[macro_export]
macro_rules! export {
    ($call:path) => {
        $crate::export!($call, |_: &str| Ok(()));
    };
    ($call:path, $configure:expr) => {
        #[no_mangle]
        pub extern "C" fn uniflow_abi() -> u32 {
            1
        }
        #[no_mangle]
        pub extern "C" fn uniflow_alloc(n: usize) -> *mut u8 {
            $crate::uniflow::alloc(n)
        }
        #[no_mangle]
        pub extern "C" fn uniflow_call(_ptr: *const u8, n: usize) -> u64 {
            $crate::uniflow::answer(n, $call)
        }
        #[no_mangle]
        pub extern "C" fn uniflow_config(_ptr: *const u8, n: usize) -> u64 {
            $crate::uniflow::answer(n, |text| $configure(text).map(|_: ()| "null".to_string()))
        }
    };
}

/// Values of JSON. Numbers are as precise as f64 is.
pub mod json {
    pub enum Value {
        Null,
        Bool(bool),
        Number(f64),
        Text(String),
        List(Vec<Value>),
        Map(Vec<(String, Value)>),
    }

    static NULL: Value = Value::Null;

    impl Value {
        /// Returns a field of a map; null if there is none.
        pub fn get(&self, name: &str) -> &Value {
            match self {
                Value::Map(fields) => fields.iter().find(|f| f.0 == name).map_or(&NULL, |f| &f.1),
                _ => &NULL,
            }
        }

        pub fn text(&self) -> Option<&str> {
            if let Value::Text(s) = self { Some(s) } else { None }
        }

        pub fn int(&self) -> Option<i64> {
            if let Value::Number(n) = self { Some(*n as i64) } else { None }
        }

        pub fn list(&self) -> &[Value] {
            if let Value::List(l) = self { l } else { &[] }
        }
    }

    /// Reads a text. The host has checked it, so errors are rare.
    pub fn parse(text: &str) -> Result<Value, String> {
        let mut p = Parser { text: text.as_bytes(), at: 0 };
        p.value().ok_or(format!("no JSON at byte {}", p.at))
    }

    struct Parser<'a> {
        text: &'a [u8],
        at: usize,
    }

    impl<'a> Parser<'a> {
        fn next(&mut self) -> Option<u8> {
            while self.text.get(self.at)?.is_ascii_whitespace() {
                self.at += 1;
            }
            Some(self.text[self.at])
        }

        fn take(&mut self, c: u8) -> Option<()> {
            if self.next()? != c {
                return None;
            }
            self.at += 1;
            Some(())
        }

        fn word(&mut self, word: &str, value: Value) -> Option<Value> {
            if !self.text[self.at..].starts_with(word.as_bytes()) {
                return None;
            }
            self.at += word.len();
            Some(value)
        }

        fn value(&mut self) -> Option<Value> {
            match self.next()? {
                b'{' => {
                    let mut fields = Vec::new();
                    self.items(b'{', b'}', |p| {
                        let name = p.text_value()?;
                        p.take(b':')?;
                        fields.push((name, p.value()?));
                        Some(())
                    })?;
                    Some(Value::Map(fields))
                }
                b'[' => {
                    let mut list = Vec::new();
                    self.items(b'[', b']', |p| {
                        list.push(p.value()?);
                        Some(())
                    })?;
                    Some(Value::List(list))
                }
                b'"' => self.text_value().map(Value::Text),
                b'n' => self.word("null", Value::Null),
                b't' => self.word("true", Value::Bool(true)),
                b'f' => self.word("false", Value::Bool(false)),
                _ => {
                    let from = self.at;
                    while self.at < self.text.len() && b"+-.eE0123456789".contains(&self.text[self.at]) {
                        self.at += 1;
                    }
                    std::str::from_utf8(&self.text[from..self.at]).ok()?.parse().ok().map(Value::Number)
                }
            }
        }

        fn items(&mut self, open: u8, close: u8, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
            self.take(open)?;
            if self.next()? == close {
                return self.take(close);
            }
            loop {
                item(self)?;
                if self.next()? == close {
                    return self.take(close);
                }
                self.take(b',')?;
            }
        }

        fn text_value(&mut self) -> Option<String> {
            self.take(b'"')?;
            let mut bytes = Vec::new();
            loop {
                let c = *self.text.get(self.at)?;
                self.at += 1;
                match c {
                    b'"' => return String::from_utf8(bytes).ok(),
                    b'\\' => {
                        let c = self.escaped()?;
                        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                    c => bytes.push(c),
                }
            }
        }

        fn escaped(&mut self) -> Option<char> {
            let c = *self.text.get(self.at)?;
            self.at += 1;
            Some(match c {
                b'n' => '\n',
                b't' => '\t',
                b'r' => '\r',
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'u' => {
                    let high = self.hex()?;
                    if !(0xd800..0xdc00).contains(&high) {
                        return char::from_u32(high).or(Some('\u{fffd}'));
                    }
                    self.at += 2; // the other half follows
                    let low = self.hex()?;
                    char::from_u32(0x10000 + ((high & 0x3ff) << 10) + (low & 0x3ff)).unwrap_or('\u{fffd}')
                }
                c => c as char,
            })
        }

        fn hex(&mut self) -> Option<u32> {
            let digits = self.text.get(self.at..self.at + 4)?;
            self.at += 4;
            u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        }
    }
}
