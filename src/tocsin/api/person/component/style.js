/** The looks, as a constructable stylesheet: a strict Content-Security-Policy allows it. */

const STYLE = `
:host {
  --_accent: var(--tocsin-accent, light-dark(#1f5fd6, #8db4ff));
  --_background: var(--tocsin-background, light-dark(#ffffff, #1b1f27));
  --_raised: var(--tocsin-raised, light-dark(#f2f4f8, #272d38));
  --_text: var(--tocsin-text, light-dark(#171b22, #eceff4));
  --_muted: var(--tocsin-muted, light-dark(#586170, #a7b0bf));
  --_border: var(--tocsin-border, light-dark(#dde2ea, #363d4a));
  --_badge: var(--tocsin-badge, light-dark(#c8102e, #ff6b7d));
  --_badge-text: var(--tocsin-badge-text, light-dark(#ffffff, #24060b));
  --_error: var(--tocsin-error, light-dark(#a3142b, #ff9aa6));
  --_radius: var(--tocsin-radius, 12px);
  display: inline-block;
  font: var(--tocsin-font, 400 14px/1.45 system-ui, sans-serif);
  letter-spacing: normal;
  text-align: start;
  text-transform: none;
  white-space: normal;
}
:host([hidden]) { display: none; }
* { box-sizing: border-box; }
[hidden] { display: none !important; }
button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
button:disabled { cursor: default; opacity: 0.45; }
:focus-visible { outline: 2px solid var(--_accent); outline-offset: 2px; }
.drawing { inline-size: 20px; block-size: 20px; display: block; fill: none; stroke: currentColor; stroke-width: 1.7;
  stroke-linecap: round; stroke-linejoin: round; }
.only-read-aloud { position: absolute; inline-size: 1px; block-size: 1px; overflow: hidden; clip-path: inset(50%); }
.bell { position: relative; display: grid; place-items: center; inline-size: 40px; block-size: 40px; border-radius: 50%; }
.bell .drawing { inline-size: 24px; block-size: 24px; }
.bell:hover { background: color-mix(in srgb, currentColor 10%, transparent); }
.badge { position: absolute; inset-block-start: 1px; inset-inline-end: -1px; min-inline-size: 18px; padding: 0 5px;
  border-radius: 9px; font-size: 11px; line-height: 18px; font-weight: 700; text-align: center; white-space: nowrap;
  color: var(--_badge-text); background: var(--_badge); }
.panel { position: fixed; inset: auto; margin: 0; padding: 0; overflow: hidden; outline: none; text-align: start;
  color: var(--_text); background: var(--_background); border: 1px solid var(--_border); border-radius: var(--_radius);
  box-shadow: 0 12px 40px rgb(0 0 0 / 0.22); }
.panel:popover-open { display: flex; flex-direction: column; }
header { display: flex; align-items: center; gap: 2px; padding-block: 12px 6px; padding-inline: 16px 10px; flex: none; }
h2 { flex: 1; margin: 0; font-size: 17px; line-height: 1.3; font-weight: 650; }
.icon-button { display: grid; place-items: center; inline-size: 34px; block-size: 34px; border-radius: 8px; color: var(--_muted); }
.icon-button:hover:enabled { background: var(--_raised); color: var(--_text); }
header .icon-button:first-child { margin-inline-start: -8px; }
[dir="rtl"] :is(.draws-back, .draws-restore) { scale: -1 1; }
.tabs { display: flex; gap: 4px; padding-inline: 10px; border-block-end: 1px solid var(--_border); flex: none; }
[role="tab"] { padding: 8px 8px 9px; color: var(--_muted); border-block-end: 2px solid transparent; margin-block-end: -1px; }
[role="tab"]:hover { color: var(--_text); }
[role="tab"]:focus-visible { outline-offset: -3px; border-radius: 6px; }
[role="tab"][aria-selected="true"] { color: var(--_text); font-weight: 600; border-block-end-color: var(--_accent); }
.notes { flex: none; display: flex; align-items: center; gap: 8px; padding-inline: 16px; }
.notes:has(.note:not([hidden])) { padding-block: 10px; }
.note { flex: 1; margin: 0; color: var(--_error); }
.scroller, .preferences { overflow-y: auto; overscroll-behavior: contain; min-block-size: 0; flex: 1 1 auto; }
ul { list-style: none; margin: 0; padding: 0; }
.row { display: flex; align-items: flex-start; position: relative; border-block-end: 1px solid var(--_border); }
.row:last-child { border-block-end: 0; }
.row:hover { background: var(--_raised); }
.row.unread::before { content: ""; position: absolute; inset-inline-start: 6px; inset-block-start: 26px; inline-size: 7px;
  block-size: 7px; border-radius: 50%; background: var(--_accent); }
.main { flex: 1; min-inline-size: 0; display: flex; gap: 12px; padding-block: 12px; padding-inline: 18px 4px; text-align: start;
  color: inherit; text-decoration: none; cursor: pointer; border-radius: 8px; }
.main:focus-visible { outline-offset: -3px; }
.icon { flex: none; display: grid; place-items: center; inline-size: 36px; block-size: 36px; border-radius: 50%; overflow: hidden;
  color: var(--_accent); background: color-mix(in srgb, var(--_accent) 14%, transparent); }
.icon > * { grid-area: 1 / 1; }
.icon.has-picture .drawing { visibility: hidden; }
.icon img { inline-size: 36px; block-size: 36px; object-fit: cover; }
.texts { flex: 1; min-inline-size: 0; display: block; }
.title, .body, time { display: block; overflow-wrap: anywhere; text-align: -webkit-match-parent; text-align: match-parent; }
.title { font-weight: 500; }
.unread .title { font-weight: 650; }
.body { color: var(--_muted); display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden;
  white-space: pre-line; }
.body:empty { display: none; }
time { color: var(--_muted); font-size: 12px; margin-block-start: 2px; }
.actions { display: flex; flex-direction: column; padding-block: 8px; padding-inline: 2px 8px; }
.actions .drawing { inline-size: 18px; block-size: 18px; }
.empty { margin: 0; padding: 40px 24px; text-align: center; color: var(--_muted); }
.text-button { padding: 7px 14px; border: 1px solid var(--_border); border-radius: 8px; font-weight: 550; background: var(--_background); }
.text-button:hover:enabled { background: var(--_raised); }
.more { display: block; margin: 12px auto; }
.preferences { padding: 4px 16px 16px; border-block-start: 1px solid var(--_border); }
fieldset { margin: 14px 0 0; padding: 0; border: 0; min-inline-size: 0; display: flex; flex-wrap: wrap; gap: 6px; }
legend { padding: 0; margin-block-end: 6px; font-weight: 600; overflow-wrap: anywhere; }
label { display: inline-flex; align-items: center; gap: 7px; padding: 6px 11px; border: 1px solid var(--_border);
  border-radius: 8px; cursor: pointer; }
label:has(:disabled) { cursor: default; color: var(--_muted); }
label:has(:focus-visible) { outline: 2px solid var(--_accent); outline-offset: 2px; }
input { margin: 0; inline-size: 16px; block-size: 16px; accent-color: var(--_accent); outline: none; }
.hint { flex-basis: 100%; margin: 0; font-size: 13px; color: var(--_muted); }
@media (prefers-reduced-motion: no-preference) {
  .panel { transition: opacity 0.12s; }
  @starting-style { .panel:popover-open { opacity: 0; } }
}
@media (forced-colors: active) {
  .badge { border: 1px solid; }
  .row.unread::before { background: Highlight; forced-color-adjust: none; }
}
`;

export const sheet = new CSSStyleSheet();
sheet.replaceSync(STYLE);
