// The newest messages by device, never more than MOST of them.

export const MOST = 500;

export class Store {
  #messages = [];
  #devices = new Map();

  get messageCount() {
    return this.#messages.length;
  }

  devices() {
    return [...this.#devices.values()];
  }

  // Adds messages, oldest first. Returns the devices with new messages in the order of their last arrival,
  // those that only lost their oldest messages, and those that have no messages left.
  take(arrived) {
    const changed = new Map();
    for (const message of arrived) {
      const device = this.#deviceOf(message);
      device.messages.unshift(message);
      this.#messages.push(message);
      changed.delete(device.key);
      changed.set(device.key, device);
    }
    const trimmed = new Set();
    const emptied = [];
    const forgotten = this.#messages.splice(0, Math.max(this.#messages.length - MOST, 0));
    for (const message of forgotten) {
      const device = this.#deviceOf(message);
      device.messages.pop();
      trimmed.add(device);
      if (device.messages.length === 0) {
        this.#devices.delete(device.key);
        changed.delete(device.key);
        trimmed.delete(device);
        emptied.push(device);
      }
    }
    return { changed: [...changed.values()], trimmed: [...trimmed], emptied };
  }

  clear() {
    this.#messages = [];
    this.#devices.clear();
  }

  #deviceOf(message) {
    const key = JSON.stringify([message.provider, message.target_kind, message.target]);
    let device = this.#devices.get(key);
    if (!device) {
      const { provider, device: kind, target, target_kind: targetKind } = message;
      device = { key, provider, kind, target, targetKind, messages: [] };
      this.#devices.set(key, device);
    }
    return device;
  }
}
