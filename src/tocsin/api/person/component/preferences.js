/** The view of preferences: each category and channel, and Web Push in this browser. */

import { build } from "./dom.js";

export class PreferencesView {
  element = build("div", { class: "preferences", part: "preferences" });
  #calls;
  #push;
  #fail;
  #labels;
  #language;

  /** `fail` shows an error, `labels` returns the page's own names of categories. */
  constructor({ calls, push, fail, labels }) {
    this.#calls = calls;
    this.#push = push;
    this.#fail = fail;
    this.#labels = labels;
  }

  /** Load the choices and show them. */
  async show(language) {
    this.#language = language;
    this.element.replaceChildren(build("p", { class: "empty", text: language.texts.loading }));
    const [{ categories }, choices, push] = await Promise.all([
      this.#calls.get("/v1/preferences/categories"),
      this.#calls.get("/v1/preferences"),
      this.#push.state().catch(() => "unsupported"),
    ]);
    const groups = categories.map((category) => this.#group(category, choices));
    if (groups.length === 0) groups.push(build("p", { class: "empty", text: language.texts.nothing }));
    this.element.replaceChildren(...this.#browser(push), ...groups);
  }

  #group({ category, channels }, choices) {
    const { texts } = this.#language;
    const group = build("fieldset", { part: "category" }, build("legend", { dir: "auto", text: this.#name(category) }));
    for (const [channel, refusal] of Object.entries(channels)) {
      group.append(this.#choice(category, channel, refusal, choices[category]?.[channel] ?? true));
    }
    if (Object.values(channels).includes("not_critical")) {
      group.append(build("p", { class: "hint", text: texts.critical }));
    }
    return group;
  }

  #choice(category, channel, refusal, isWanted) {
    const { texts } = this.#language;
    const box = build("input", { type: "checkbox", part: "checkbox" });
    box.checked = refusal === "none" || isWanted;
    box.disabled = refusal === "none";
    box.addEventListener("change", () => this.#change(box, category, channel));
    const name = texts[channel] ?? channel;
    return build("label", {}, box, build("span", { text: refusal === "none" ? `${name} (${texts.always})` : name }));
  }

  async #change(box, category, channel) {
    const wanted = box.checked;
    try {
      await this.#calls.patch("/v1/preferences", { [category]: { [channel]: wanted } });
    } catch (error) {
      box.checked = !wanted;
      this.#fail(error);
    }
  }

  #name(category) {
    const given = this.#labels()[category];
    if (given) return given;
    const words = category.replaceAll(/[_-]+/g, " ").replaceAll(/(\p{Ll})(\p{Lu})/gu, "$1 $2").toLowerCase();
    return words.charAt(0).toUpperCase() + words.slice(1);
  }

  /** Return the elements of Web Push; none if this browser or page cannot have it. */
  #browser(state) {
    const { texts } = this.#language;
    if (state === "unsupported") return [];
    const group = build("fieldset", { part: "browser" }, build("legend", { text: texts.browser }));
    if (state === "denied") group.append(build("p", { class: "hint", text: texts.blocked }));
    else {
      const button = build("button", { type: "button", class: "text-button", part: "push" });
      button.textContent = state === "on" ? texts.off : texts.on;
      button.addEventListener("click", () => this.#switch(group, button, state));
      group.append(button);
    }
    return [group];
  }

  async #switch(group, button, state) {
    button.disabled = true;
    try {
      const now = await (state === "on" ? this.#push.disable() : this.#push.enable());
      const [shown] = this.#browser(now);
      if (shown) group.replaceWith(shown);
      else group.remove();
      shown?.querySelector("button")?.focus();
    } catch (error) {
      button.disabled = false;
      this.#fail(error);
    }
  }
}
