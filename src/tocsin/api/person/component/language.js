/** A language of the component: its texts, its direction, its numbers and its times. */

import { TEXTS } from "./texts.js";

const FROM_RIGHT = new Set(["ar", "fa"]);
const MOST_COUNTED = 99;
const UNITS = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["week", 604_800],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

export class Language {
  #plurals;
  #numbers;
  #relative;
  #absolute;

  /** `tag` is a tag such as `pt-BR`; one that cannot be read, or has no texts, is English. */
  constructor(tag) {
    const code = String(tag ?? "").toLowerCase().split(/[-_]/)[0];
    this.code = Object.hasOwn(TEXTS, code) ? code : "en";
    this.texts = TEXTS[this.code];
    this.direction = FROM_RIGHT.has(this.code) ? "rtl" : "ltr";
    const locale = this.code === code ? valid(tag) ?? code : "en";
    this.#plurals = new Intl.PluralRules(locale);
    this.#numbers = new Intl.NumberFormat(locale);
    this.#relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "short" });
    this.#absolute = new Intl.DateTimeFormat(locale, { dateStyle: "full", timeStyle: "short" });
  }

  /** Return a count for a badge; counting ends at a hundred. */
  badge(count) {
    return count > MOST_COUNTED ? `${this.#numbers.format(MOST_COUNTED)}+` : this.#numbers.format(count);
  }

  /** Return the label of the bell. */
  bell(count) {
    const { title, none, count: forms } = this.texts;
    const form = forms[this.#plurals.select(count)] ?? forms.other;
    return `${title}: ${count === 0 ? none : form.replace("{n}", this.badge(count))}`;
  }

  /** Return how long ago something was. */
  ago(date, now = Date.now()) {
    const seconds = Math.round((date.getTime() - now) / 1_000);
    const [unit, size] = UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? ["second", 1];
    // Clocks differ by seconds: nothing comes from the future, and nobody counts seconds.
    if (unit === "second") return this.#relative.format(0, "second");
    return this.#relative.format(Math.trunc(seconds / size), unit);
  }

  date(date) {
    return this.#absolute.format(date);
  }
}

function valid(tag) {
  try {
    return Intl.getCanonicalLocales(tag.replaceAll("_", "-"))[0];
  } catch {
    return null;
  }
}
