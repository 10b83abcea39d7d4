// Requests to crt-http, on whose port this page lies, maybe below a path of a proxy: all addresses
// are relative. What it got when it signed in is kept for this origin and this path alone, and sent
// as a header: browsers add it to nothing by themselves.

export class NotSignedIn extends Error {}

// There is no such path: an older or a smaller server.
export class NotThere extends Error {}

const PATIENCE_MS = 8000;
const KEPT_AS = `crt-session ${new URL(".", document.baseURI).pathname}`;

let own = null; // where the browser keeps nothing

function session() {
  try {
    return localStorage.getItem(KEPT_AS) || own;
  } catch {
    return own;
  }
}

function keep(secret) {
  own = secret;
  try {
    if (secret)
      localStorage.setItem(KEPT_AS, secret);
    else
      localStorage.removeItem(KEPT_AS);
  } catch {
    // this tab alone is signed in
  }
}

// What the server says of a request that it did not carry out: a sentence, which the state API
// wraps.
async function refusal(answer, otherwise) {
  const text = await answer.text();
  try {
    const said = JSON.parse(text);
    return said.msg || said.error?.message || text;
  } catch {
    return text.slice(0, 300) || otherwise;
  }
}

async function ask(path, {headers, patience = PATIENCE_MS, ...options} = {}) {
  const secret = session();
  const answer = await fetch(path, {credentials: "same-origin",
    signal: AbortSignal.timeout(patience),
    headers: {...headers, ...secret ? {"X-CRT-Session": secret} : {}}, ...options});
  if (answer.status === 401)
    throw new NotSignedIn();
  if (answer.status === 404)
    throw new NotThere(await refusal(answer, `${path} is not there`));
  if (answer.status === 403 && !options.method) {
    if (secret === session()) // no other tab has signed in meanwhile
      keep(null);
    throw new NotSignedIn();
  }
  if (answer.status === 403)
    throw new Error(await refusal(answer, "this token may not do that"));
  if (!answer.ok)
    throw new Error(await refusal(answer, `${path}: status ${answer.status}`));
  return answer;
}

export const get = async (path, options) => (await ask(path, options)).json();
export const get_text = async (path) => (await ask(path)).text();

export async function post(path, body) {
  const answer = await ask(path, {method: "POST", headers: {"Content-Type": "application/json"},
    body: body === undefined ? undefined : JSON.stringify(body)});
  return answer.json();
}

export const remove = async (path) => (await ask(path, {method: "DELETE"})).json();

// {rows, total}: entries of the state API that match the filters, each of which is
// [column, "=" or "!=", value].
export async function state(what, {limit = 100, detail = "True", filters = []} = {}) {
  const query = new URLSearchParams({limit, detail});
  for (const [column, predicate, value] of filters) {
    query.append("filter_keys", column);
    query.append("filter_predicates", predicate);
    query.append("filter_values", value);
  }
  const answer = await get(`api/v0/${what}?${query}`);
  if (!answer.result)
    throw new Error(answer.msg);
  const result = answer.data.result;
  return {rows: result.result, total: result.num_filtered ?? result.total};
}

// `word` is "Bearer TOKEN" or "Code CODE".
async function authenticate(word, refused) {
  const answer = await fetch("api/authenticate",
    {method: "POST", credentials: "same-origin", headers: {Authorization: word}});
  if (answer.status === 403 || answer.status === 401)
    throw new Error(refused);
  if (!answer.ok)
    throw new Error(await refusal(answer, `status ${answer.status}`));
  keep((await answer.json()).session);
}

export const sign_in = (token) =>
  authenticate(`Bearer ${token}`, "This is not the cluster's token.");

export async function sign_in_by_link(code) {
  try {
    await authenticate(`Code ${code}`,
      "This link was used, or is older than a minute: crt dashboard prints another one.");
  } catch (error) {
    if (!session())
      throw error; // else this browser is signed in already
  }
}
