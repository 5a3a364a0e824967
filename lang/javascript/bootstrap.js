// Prepares the globals of a runtime once, before any code of a workflow runs:
// caps code made at run time, lets plain objects override what they inherit, and
// freezes everything reachable, so that nothing that a run does can be seen by
// another.
(function (limits) {
  "use strict";
  const { apply, construct, ownKeys, getPrototypeOf, getOwnPropertyDescriptor, defineProperty } = Reflect;
  const { freeze } = Object;
  const RealString = String;
  const RealRangeError = RangeError;
  const RealTypeError = TypeError;
  const RealSet = Set;

  // replace puts make(original) in the place of a method, under its name.
  function replace(object, key, make) {
    const d = getOwnPropertyDescriptor(object, key);
    const original = d.value;
    const made = make(original);
    defineProperty(made, "name", { value: original.name, configurable: true });
    defineProperty(made, "length", { value: original.length, configurable: true });
    defineProperty(object, key, { ...d, value: made });
  }

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

    // For the guards.
    rangeError: (message) => new RealRangeError(message),
    nothing: () => {},
    intrinsics: () => [...seen],
  };
});
