// Browsers start no worker from a file on disk. For a guide that is read there, a hidden frame does the work of its search.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      const ready = new Promise((done) => {
        frame.onload = () => {
          frame.onload = null;
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inside.document.createElement("script");
          script.src = url;
          script.onload = () => done(inside);
          inside.document.body.append(script);
        };
      });
      document.body.append(frame);
      this.postMessage = (data) => ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
