"use strict";
(() => {
	// In milliseconds.
	const interval = 1000; // between two polls
	const longest = 30_000; // between two polls of a server in trouble
	const patience = 10_000; // for one answer
	const span = 120_000; // of the charts
	const rateSpan = 5000; // that rates are taken over
	const gap = 5000; // between two samples that a line does not bridge

	const $ = (id) => document.getElementById(id);
	const rows = new Map(); // by name

	// Polling.

	// Problem is an error whose message the page shows.
	class Problem extends Error {}

	let timer;
	let asking = false;
	let paused = false;
	let failures = 0; // in a row
	let last; // when the server last answered, undefined if never

	// poll asks once, and sees to it that the next one follows, later and later
	// if the server does not answer. While nobody can see the page, none does.
	async function poll() {
		clearTimeout(timer);
		if (asking || paused || document.hidden) return;
		asking = true;
		try {
			const status = await ask();
			last = performance.now();
			show(status.bulkheads, last);
			failures = 0;
			tellProblem("");
		} catch (err) {
			failures++;
			tellProblem(`${err instanceof Problem ? err.message : "The server's answer makes no sense."} Trying again.`);
		}
		asking = false;
		tellAge();
		timer = setTimeout(poll, Math.min(interval * 2 ** failures, longest));
	}

	async function ask() {
		const signal = AbortSignal.timeout(patience);
		const resp = await fetch("?format=json", { cache: "no-store", signal }).catch(() => {
			throw new Problem("The server does not answer.");
		});
		if (!resp.ok) throw new Problem(`The server answered with status ${resp.status}.`);
		return resp.json();
	}

	// tellProblem changes what a screen reader announces, so not without need.
	function tellProblem(text) {
		document.body.classList.toggle("stale", text !== "");
		if ($("problem").textContent !== text) $("problem").textContent = text;
	}

	function tellAge() {
		const age = last === undefined ? "" : `updated ${duration(performance.now() - last)} ago`;
		$("updated").textContent = [paused ? "paused" : "", age].filter(Boolean).join(", ");
	}

	function duration(ms) {
		const s = Math.floor(ms / 1000);
		if (s < 120) return `${s} s`;
		return s < 7200 ? `${Math.floor(s / 60)} min` : `${Math.floor(s / 3600)} h`;
	}

	// Numbers.

	const digits = { maximumSignificantDigits: 3 };
	const compact = new Intl.NumberFormat("en", { notation: "compact", ...digits });
	const scientific = new Intl.NumberFormat("en", { notation: "scientific", ...digits });

	// number writes what has no room for more than some seven characters.
	function number(n) {
		if (n >= 1e15) return scientific.format(n);
		return n >= 1e6 ? compact.format(n) : n.toLocaleString("en");
	}

	function rate(perSecond) {
		if (perSecond >= 1e5) return `${compact.format(perSecond)}/s`;
		const decimals = perSecond > 0 && perSecond < 10 ? 1 : 0;
		return `${perSecond.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals })}/s`;
	}

	// The table.

	// show makes the table show these bulkheads, as they were at the time now.
	function show(bulkheads, now) {
		const present = new Map();
		for (const b of bulkheads) {
			// Names differ, but for bytes that are no text and look the same here.
			let key = b.name;
			while (present.has(key)) key += "\0";
			present.set(key, rows.get(key) ?? new Row());
			present.get(key).update(b, now);
		}
		if (rows.size === 0) $("rows").replaceChildren(); // what the server wrote
		for (const [key, row] of rows) {
			if (!present.has(key)) row.element.remove();
		}
		rows.clear();
		let place = $("rows").firstElementChild;
		for (const [key, row] of present) {
			rows.set(key, row);
			if (row.element === place) place = place.nextElementSibling;
			else $("rows").insertBefore(row.element, place);
		}
		$("none").hidden = bulkheads.length > 0;
		$("summary").textContent = summary(bulkheads);
	}

	function summary(bulkheads) {
		const waiting = bulkheads.reduce((sum, b) => sum + b.waiting, 0);
		const full = bulkheads.filter((b) => b.active >= b.max_concurrent).length;
		const one = bulkheads.length === 1;
		return `${bulkheads.length} bulkhead${one ? "" : "s"}, ${full} full, ${number(waiting)} waiting`;
	}

	class Row {
		element = $("row").content.firstElementChild.cloneNode(true);
		parts = {};
		samples = []; // of the last span, oldest first

		constructor() {
			for (const part of this.element.querySelectorAll("[data-is]")) this.parts[part.dataset.is] = part;
		}

		update(b, now) {
			this.sample(b, now);
			const percent = Math.floor((100 * b.active) / b.max_concurrent);
			this.write("name", b.name);
			this.write("limit", number(b.max_concurrent));
			this.write("active", number(b.active));
			this.write("percent", `${number(percent)}%`);
			this.write("waiting", number(b.waiting));
			this.parts.bar.setAttribute("width", Math.min(percent, 100));
			this.parts.closed.hidden = !b.closed;
			this.writeFull(b.counts.full_since);
			this.writeRates();
			this.draw(now);
		}

		sample(b, now) {
			while (this.samples.length > 0 && now - this.samples[0].at > span) this.samples.shift();
			const rejected = {};
			for (const [reason, tally] of Object.entries(b.counts.rejected)) rejected[reason] = tally.calls;
			this.samples.push({
				at: now,
				limit: b.max_concurrent,
				active: b.active,
				waiting: b.waiting,
				since: b.counted_since,
				permitted: b.counts.permitted.calls,
				rejected,
			});
		}

		write(part, text) {
			if (this.parts[part].textContent !== text) this.parts[part].textContent = text;
		}

		writeFull(since) {
			this.parts.full.hidden = since === null;
			if (since === null) return;
			const at = new Date(since);
			this.write("full", Number.isNaN(at.valueOf()) ? "full" : `full since ${at.toLocaleTimeString("en-GB")}`);
		}

		writeRates() {
			const to = this.samples.at(-1);
			const from = this.samples.find((s) => to.at - s.at <= rateSpan && s.since === to.since);
			if (from === to) {
				for (const part of ["permitted", "rejected"]) this.write(part, "–");
				this.write("reasons", "");
				return;
			}
			const perSecond = (n) => (1000 * n) / (to.at - from.at);
			const reasons = Object.entries(to.rejected)
				.map(([reason, n]) => [reason, perSecond(n - from.rejected[reason])])
				.filter(([, n]) => n > 0);
			this.write("permitted", rate(perSecond(to.permitted - from.permitted)));
			this.write("rejected", rate(reasons.reduce((sum, [, n]) => sum + n, 0)));
			this.write("reasons", reasons.map(([reason, n]) => `${reason.replaceAll("_", " ")} ${rate(n)}`).join("\n"));
		}

		draw(now) {
			const most = (value) => Math.max(...this.samples.map(value));
			const active = most((s) => s.active);
			const waiting = most((s) => s.waiting);
			const top = most((s) => Math.max(s.limit, s.active));
			const title = (what, n) => `${what}, over two minutes, at most ${number(n)}`;
			chart(this.parts["active-chart"], this.samples, now, title("In use", active), {
				line: (s) => s.active / top,
				limit: (s) => s.limit / top,
			});
			chart(this.parts["waiting-chart"], this.samples, now, title("Waiting", waiting), {
				line: (s) => s.waiting / Math.max(waiting, 1),
			});
		}
	}

	// Charts.

	// chart draws lines whose functions give heights between 0 and 1.
	function chart(svg, samples, now, title, lines) {
		const { width, height } = svg.viewBox.baseVal;
		const x = (s) => (width * (1 - (now - s.at) / span)).toFixed(1);
		const y = (h) => (height * (1 - h)).toFixed(1);
		svg.querySelector("title").textContent = title; // for the mouse, and for who hears it
		const runs = unbroken(samples);
		for (const [name, h] of Object.entries(lines)) {
			const path = (run) => "M" + run.map((s) => `${x(s)} ${y(h(s))}`).join("L");
			svg.querySelector(`.${name}`).setAttribute("d", runs.map(path).join(""));
		}
		const area = (run) =>
			`M${x(run[0])} ${height}L` + run.map((s) => `${x(s)} ${y(lines.line(s))}`).join("L") + `L${x(run.at(-1))} ${height}Z`;
		svg.querySelector(".area").setAttribute("d", runs.map(area).join(""));
	}

	// unbroken splits samples where none were taken for a while.
	function unbroken(samples) {
		const runs = [];
		for (const [i, s] of samples.entries()) {
			if (i === 0 || s.at - samples[i - 1].at > gap) runs.push([]);
			runs.at(-1).push(s);
		}
		return runs;
	}

	// Start.

	$("pause").hidden = false;
	$("pause").addEventListener("click", () => {
		paused = !paused;
		$("pause").setAttribute("aria-pressed", paused);
		tellAge();
		poll();
	});
	document.addEventListener("visibilitychange", poll);
	window.addEventListener("online", poll);
	setInterval(tellAge, 1000);
	document.title = `Bulkheads of ${location.host}`;
	poll();
})();
