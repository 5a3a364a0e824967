// Prepares the globals of a runtime once, before any code of a workflow runs:
// caps functions whose result can be far larger than their arguments, lets plain
// objects override what they inherit, and freezes everything reachable, so that
// nothing that a run does can be seen by another.
(function (limits) {
  "use strict";
  const { apply, construct, ownKeys, getPrototypeOf, getOwnPropertyDescriptor, defineProperty } = Reflect;
  const { freeze } = Object;
  const RealString = String;
  const RealArrayIsArray = Array.isArray;
  const RealRegExp = RegExp;
  const RealRangeError = RangeError;
  const RealTypeError = TypeError;
  const RealSet = Set;

  function tooLarge(what) {
    return new RealRangeError(what + " would make more than the limit allows");
  }

  // replace puts make(original) in the place of a method, under its name.
  function replace(object, key, make) {
    const d = getOwnPropertyDescriptor(object, key);
    const original = d.value;
    const made = make(original);
    defineProperty(made, "name", { value: original.name, configurable: true });
    defineProperty(made, "length", { value: original.length, configurable: true });
    defineProperty(object, key, { ...d, value: made });
  }

  for (const key of ["padStart", "padEnd"]) {
    replace(String.prototype, key, (original) => ({
      [key](...args) {
        if (args[0] > limits.text) throw tooLarge(key);
        return apply(original, this, args);
      },
    })[key]);
  }
  replace(String.prototype, "repeat", (original) => ({
    repeat(n) {
      const s = this === undefined || this === null ? this : RealString(this);
      if (s && s.length * n > limits.text) throw tooLarge("repeat");
      return apply(original, s, [n]);
    },
  }).repeat);
  for (const key of ["replace", "replaceAll"]) {
    replace(String.prototype, key, (original) => ({
      [key](pattern, by) {
        if (typeof by === "string" && typeof this === "string" && (this.length + 1) * by.length > limits.text) {
          let times = 1;
          if (pattern instanceof RealRegExp) {
            if (pattern.global) times = (this.match(pattern) || []).length;
          } else if (key === "replaceAll") {
            times = this.split(pattern).length;
          }
          if (times * by.length > limits.text) throw tooLarge(key);
        }
        return apply(original, this, [pattern, by]);
      },
    })[key]);
  }
  replace(Array.prototype, "join", (original) => ({
    join(separator) {
      if (this !== undefined && this !== null) {
        const width = separator === undefined ? 1 : RealString(separator).length;
        if (this.length > limits.items || this.length * width > limits.text) throw tooLarge("join");
      }
      return apply(original, this, [separator]);
    },
  }).join);
  replace(Array.prototype, "fill", (original) => ({
    fill(...args) {
      if (this !== undefined && this !== null && this.length > limits.items) throw tooLarge("fill");
      return apply(original, this, args);
    },
  }).fill);
  replace(Array, "from", (original) => ({
    from(items, ...args) {
      if (items !== undefined && items !== null && typeof items === "object" && items.length > limits.items) {
        throw tooLarge("from");
      }
      return apply(original, this, [items, ...args]);
    },
  }).from);
  replace(Array.prototype, "flat", (original) => ({
    flat(depth = 1) {
      return apply(original, this, [depth > limits.depth ? limits.depth : depth]);
    },
  }).flat);
  replace(Function.prototype, "apply", (original) => ({
    apply(self, args) {
      if (args !== undefined && args !== null && args.length > limits.args) throw tooLarge("apply");
      return apply(original, this, [self, args]);
    },
  }).apply);
  replace(Reflect, "apply", (original) => (target, self, args) => {
    if (args !== undefined && args !== null && args.length > limits.args) throw tooLarge("apply");
    return original(target, self, args);
  });
  replace(Reflect, "construct", (original) => (target, args, ...newTarget) => {
    if (args !== undefined && args !== null && args.length > limits.args) throw tooLarge("construct");
    return original(target, args, ...newTarget);
  });

  // Nesting is bounded where the native code recurses on its own stack, which
  // the limit on calls does not cover.
  replace(JSON, "parse", (original) => (text, ...reviver) => {
    if (typeof text !== "string") text = RealString(text);
    if (text.length > limits.depth && limits.nesting(text) > limits.depth) {
      throw new SyntaxError("JSON nests deeper than " + limits.depth + " levels");
    }
    return original(text, ...reviver);
  });

  // Code that is made at run time is bounded in length, because the parser
  // recurses too. Being a function of its own, eval sees globals only.
  function bounded(args) {
    let length = 0;
    for (let i = 0; i < args.length; i++) length += RealString(args[i]).length;
    if (length > limits.code) throw new RealRangeError("code made at run time may have " + limits.code + " characters");
  }
  replace(globalThis, "eval", (original) => (code) => {
    if (typeof code !== "string") return code;
    bounded([code]);
    return original(code);
  });
  for (const sample of [function () {}, function* () {}, async function () {}]) {
    const prototype = getPrototypeOf(sample);
    const Real = prototype.constructor;
    const Bounded = function (...args) {
      bounded(args);
      return construct(Real, args, new.target === undefined || new.target === Bounded ? Real : new.target);
    };
    defineProperty(Bounded, "name", { value: Real.name, configurable: true });
    defineProperty(Bounded, "length", { value: 1, configurable: true });
    defineProperty(Bounded, "prototype", { value: prototype, writable: false });
    defineProperty(prototype, "constructor", { ...getOwnPropertyDescriptor(prototype, "constructor"), value: Bounded });
    if (globalThis[Real.name] === Real) {
      defineProperty(globalThis, Real.name, { ...getOwnPropertyDescriptor(globalThis, Real.name), value: Bounded });
    }
  }

  // Arrays and buffers. Native loops over an array of four billion holes could
  // not be interrupted.
  const TypedArray = getPrototypeOf(Uint8Array);
  for (const name of ownKeys(globalThis)) {
    const d = getOwnPropertyDescriptor(globalThis, name);
    const Real = d.value;
    if (typeof Real !== "function" || (Real !== Array && Real !== ArrayBuffer && getPrototypeOf(Real) !== TypedArray)) continue;
    const isArray = Real === Array; // by now, later that is Bounded
    const Bounded = function (...args) {
      const [n] = args;
      if (isArray) {
        if (args.length === 1 && typeof n === "number" && n > limits.items) throw tooLarge(name);
        return construct(Real, args, new.target === undefined || new.target === Bounded ? Real : new.target);
      }
      if (new.target === undefined) return Real(...args);
      if ((typeof n === "object" && n !== null ? n.length : n) * (Real.BYTES_PER_ELEMENT || 1) > limits.text) throw tooLarge(name);
      return construct(Real, args, new.target === Bounded ? Real : new.target);
    };
    for (const key of ownKeys(Real)) defineProperty(Bounded, key, getOwnPropertyDescriptor(Real, key));
    if (isArray) {
      // Undefined has map and the like make a plain array without calling Bounded.
      defineProperty(Bounded, Symbol.species, {
        get() {
          return this === Bounded ? undefined : this;
        },
        configurable: true,
      });
    }
    Object.setPrototypeOf(Bounded, getPrototypeOf(Real));
    defineProperty(globalThis, name, { ...d, value: Bounded });
    defineProperty(Real.prototype, "constructor", { ...getOwnPropertyDescriptor(Real.prototype, "constructor"), value: Bounded });
  }

  // Assigning to a property that is inherited from a frozen object is an error,
  // in strict code even for o.toString = f on an object that is o's own. So the
  // properties that programs do override become accessors, whose setter defines
  // an own property. The hot ones (push, call, Array's constructor) stay: a
  // getter at each use would cost more than the code gains.
  function overridable(object, ...keys) {
    for (const key of keys) {
      const d = getOwnPropertyDescriptor(object, key);
      if (d === undefined || !("value" in d)) continue;
      const { value } = d;
      const accessor = {
        get() {
          return value;
        },
        set(v) {
          if (this === object) throw new RealTypeError("cannot assign to the property " + RealString(key) + " of a frozen object");
          defineProperty(this, key, { value: v, writable: true, enumerable: true, configurable: true });
        },
      };
      defineProperty(object, key, { get: accessor.get, set: accessor.set, enumerable: false, configurable: true });
    }
  }
  overridable(Object.prototype, ...ownKeys(Object.prototype));
  overridable(Function.prototype, "toString", "constructor");
  overridable(Array.prototype, "toString");
  for (const E of [Error, AggregateError, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError]) {
    overridable(E.prototype, "constructor", "name", "message", "toString");
  }

  // Everything reachable, with the intrinsics that no property leads to.
  const todo = [
    globalThis,
    function* () {},
    async function () {},
    [][Symbol.iterator](),
    ""[Symbol.iterator](),
    new Map()[Symbol.iterator](),
    new Set()[Symbol.iterator](),
    "a".matchAll(/a/g),
    (function () {
      return getOwnPropertyDescriptor(arguments, "callee").get;
    })(),
  ];
  const seen = new RealSet();
  while (todo.length > 0) {
    const o = todo.pop();
    if (o === null || (typeof o !== "object" && typeof o !== "function") || seen.has(o)) continue;
    seen.add(o);
    todo.push(getPrototypeOf(o));
    for (const key of ownKeys(o)) {
      const d = getOwnPropertyDescriptor(o, key);
      if (d.value !== undefined) todo.push(d.value);
      if (d.get !== undefined) todo.push(d.get);
      if (d.set !== undefined) todo.push(d.set);
    }
  }
  seen.forEach((o) => freeze(o));

  // The prototype of error payloads, which as strings are their messages.
  const failure = freeze({
    toString() {
      return String(this.message);
    },
  });
  freeze(failure.toString);

  // What the Go side needs of the intrinsics.
  return {
    failure: () => failure,
    bytes: (buffer) => new Uint8Array(buffer),
    date: (ms) => new Date(ms),
    resolve: (thenable) => Promise.resolve(thenable),
    entries: (map) => {
      const flat = [];
      map.forEach((v, k) => {
        flat.push(k, v);
      });
      return flat;
    },
    elements: (set) => [...set],
  };
});
