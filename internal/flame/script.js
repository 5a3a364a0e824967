(function () {
  "use strict";
  var svg = document.getElementById("flame");
  var all = 1200, gap = 3, charWidth = 6.7, slack = 0.001;
  var zoomed = null;
  var frames = Array.prototype.map.call(svg.querySelectorAll("g.f"), function (g) {
    var rect = g.querySelector("rect");
    var lines = g.querySelector("title").textContent.split("\n");
    return {
      g: g,
      rect: rect,
      text: g.querySelector("text"),
      name: lines[0],
      names: lines.slice(0, -1).join("\n").toLowerCase(), // not the figures
      x: Number(rect.getAttribute("x")),
      y: Number(rect.getAttribute("y")),
      w: Number(rect.getAttribute("width"))
    };
  });
  var found = document.getElementById("found");
  var reset = document.getElementById("reset");
  var search = document.getElementById("search");

  function fit(name, room) {
    var chars = Math.floor((room - 2 * gap) / charWidth), runes = Array.from(name);
    if (runes.length <= chars) {
      return name;
    }
    return chars < 3 ? "" : runes.slice(0, chars - 1).join("") + "…";
  }

  function place(f, x, w, up) {
    f.rect.setAttribute("x", x);
    f.rect.setAttribute("width", w);
    f.text.setAttribute("x", x + gap);
    f.text.textContent = fit(f.name, w);
    f.g.setAttribute("visibility", "visible");
    f.g.classList.toggle("up", up);
  }

  function zoom(to) {
    zoomed = to;
    reset.setAttribute("visibility", to === frames[0] ? "hidden" : "visible");
    frames.forEach(function (f) {
      var inside = f.x >= to.x - slack && f.x + f.w <= to.x + to.w + slack;
      var around = f.x <= to.x + slack && f.x + f.w >= to.x + to.w - slack;
      if (f.y < to.y && around) {
        place(f, 0, all, true);
      } else if (f.y >= to.y && inside) {
        place(f, (f.x - to.x) * all / to.w, f.w * all / to.w, false);
      } else {
        f.g.setAttribute("visibility", "hidden");
      }
    });
  }

  function find(word) {
    var end = 0, sum = 0;
    word = word.toLowerCase();
    frames.map(function (f) {
      var hit = word !== "" && f !== frames[0] && f.names.indexOf(word) >= 0;
      f.g.classList.toggle("hit", hit);
      return hit ? f : null;
    }).filter(Boolean).sort(function (a, b) {
      return a.x - b.x;
    }).forEach(function (f) {
      sum += Math.max(0, f.x + f.w - Math.max(end, f.x));
      end = Math.max(end, f.x + f.w);
    });
    found.textContent = word === "" ? "" : "found: " + (100 * sum / all).toFixed(1) + " %";
  }

  function ask() {
    var word = window.prompt("Search for (nothing ends it):", "");
    if (word !== null) {
      find(word);
    }
  }

  frames.forEach(function (f) {
    f.g.addEventListener("click", function () {
      zoom(zoomed === f ? frames[0] : f);
    });
  });
  reset.addEventListener("click", function () {
    zoom(frames[0]);
  });
  search.addEventListener("click", ask);
  window.addEventListener("keydown", function (e) {
    if (e.key === "Escape") {
      zoom(frames[0]);
      find("");
    } else if (e.key === "/") {
      e.preventDefault();
      ask();
    }
  });
  search.setAttribute("visibility", "visible");
  svg.classList.add("live");
})();
