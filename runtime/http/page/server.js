// Requests to crt-http, on whose port this page lies. A token becomes a cookie that no script can read.

export class NotSignedIn extends Error {}

// There is no such path: an older or a smaller server.
export class NotThere extends Error {}

const PATIENCE_MS = 8000;

// What the server says of a request that it did not carry out: a sentence, which the state API wraps.
async function refusal(answer, otherwise) {
  const text = await answer.text();
  try {
    return JSON.parse(text).msg || text;
  } catch {
    return text.slice(0, 300) || otherwise;
  }
}

async function ask(path, options = {}) {
  const answer = await fetch(path, {credentials: "same-origin", signal: AbortSignal.timeout(options.patience || PATIENCE_MS),
    ...options});
  if (answer.status === 401)
    throw new NotSignedIn();
  if (answer.status === 404)
    throw new NotThere(await refusal(answer, `${path} is not there`));
  if (answer.status === 403)
    throw options.method ? new Error(await refusal(answer, "this token may not do that")) : new NotSignedIn();
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

// {rows, total}: entries of the state API that match the filters [[column, "=" or "!=", value], ...].
export async function state(what, {limit = 100, detail = "True", filters = []} = {}) {
  const query = new URLSearchParams({limit, detail});
  for (const [column, predicate, value] of filters) {
    query.append("filter_keys", column);
    query.append("filter_predicates", predicate);
    query.append("filter_values", value);
  }
  const answer = await get(`/api/v0/${what}?${query}`);
  if (!answer.result)
    throw new Error(answer.msg);
  const result = answer.data.result;
  return {rows: result.result, total: result.num_filtered ?? result.total};
}

export async function sign_in(token) {
  const answer = await fetch("/api/authenticate",
    {method: "POST", credentials: "same-origin", headers: {Authorization: `Bearer ${token}`}});
  if (!answer.ok)
    throw new Error(answer.status === 403 || answer.status === 401 ? "This is not the cluster's token." : await answer.text());
}
