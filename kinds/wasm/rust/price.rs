//! Prices an order: {"id", "lines": [{"count", "price"}]} becomes {"id", "total", "average"}.

mod uniflow;
use std::sync::atomic::{AtomicI64, Ordering};
use uniflow::{json, quote, Error};

export!(price, configure);

static TAX: AtomicI64 = AtomicI64::new(0); // in percent

fn configure(text: &str) -> Result<(), Error> {
    let tax = json::parse(text)?.get("tax").int().ok_or("tax must be a number")?;
    TAX.store(tax, Ordering::Relaxed);
    Ok(())
}

fn price(text: &str) -> Result<String, Error> {
    let order = json::parse(text)?;
    let lines = order.get("lines").list();
    if lines.is_empty() {
        return Err(Error { message: "the order has no lines".to_string(), code: "empty".to_string(), status: 422, public: true });
    }
    let (mut total, mut pieces) = (0, 0);
    for line in lines {
        let count = line.get("count").int().unwrap_or(0);
        pieces += count;
        total += count * line.get("price").int().unwrap_or(0);
    }
    total += total * TAX.load(Ordering::Relaxed) / 100;
    let id = order.get("id").text().unwrap_or("");
    Ok(format!("{{\"id\":{},\"total\":{},\"average\":{}}}", quote(id), total, total / pieces))
}
