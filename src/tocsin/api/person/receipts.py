"""Receipts: what a person's device reports of a delivery."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from tocsin.api.http.bodies import decode
from tocsin.api.http.problems import NOT_ALLOWED, NOT_FOUND, RATE_LIMITED, ProblemError
from tocsin.api.http.requests import ApiRequest
from tocsin.api.routes import PERSON, PUBLIC, Routes, Tag
from tocsin.domain.delivery.receipts import ReceiptEvent, is_receipt_token
from tocsin.store import receipts
from tocsin.store.receipts import Report
from tocsin.wire.person.receipts import Receipt, ReceiptList, ReceiptResult, ReceiptResults, SignedReceipt

LARGEST_SIGNED = 1_024
EXAMPLE = {"delivery_id": "0198c0de-0000-7000-8000-000000000001", "event": "opened"}

routes = Routes(Tag.RECEIPTS)


@routes(
    "POST /v1/receipts",
    "Report that one's device got, opened or dismissed a delivery: one, or a list of up to 100",
    PERSON,
    problems=(RATE_LIMITED,),
    body=Receipt | ReceiptList,
    example=EXAMPLE,
)
async def report(request: ApiRequest) -> ReceiptResults:
    """Record what the app of the person who calls reports."""
    raw = await request.body()
    # The type of a union of a struct and a list has no fault that names a field.
    is_list = raw.lstrip()[:1] == b"["
    given = decode(raw, ReceiptList) if is_list else [decode(raw, Receipt)]
    return await _record(request, request.person, given)


@routes(
    "POST /v1/receipts/signed",
    "Report what happened to one delivery by the token that came with it, without a login",
    PUBLIC,
    problems=(NOT_FOUND, NOT_ALLOWED, RATE_LIMITED),
    example=EXAMPLE | {"receipt_token": "x" * 22},
    max_body_bytes=LARGEST_SIGNED,
)
async def report_signed(request: ApiRequest, body: SignedReceipt) -> ReceiptResults:
    """Record what a service worker or an extension reports, which has no login."""
    secret = request.services.receipts.secret
    if secret is None:
        raise ProblemError(NOT_FOUND, "Receipt tokens are not set up here: see receipts.secret.")
    if not is_receipt_token(secret, body.delivery_id, body.receipt_token):
        raise ProblemError(NOT_ALLOWED, "The receipt_token is not the one of this delivery.")
    async with request.pool.acquire() as connection:
        user_id = await receipts.owner(connection, body.delivery_id)
    if user_id is None:
        return ReceiptResults(results=[_result(body, None)])
    return await _record(request, user_id, [body])


async def _record(request: ApiRequest, user_id: str, given: Sequence[Receipt]) -> ReceiptResults:
    now, most = request.now(), request.services.receipts.per_minute
    async with request.pool.acquire() as connection:
        if await receipts.spend(connection, user_id, len(given), now) > most:
            detail = f"At most {most} receipts a minute are accepted of a person."
            raise ProblemError(RATE_LIMITED, detail, headers={"Retry-After": str(60 - now.second)})
        async with connection.transaction():
            reports = [Report(each.delivery_id, each.event) for each in given]
            new = await receipts.record(connection, user_id, reports, now)
    results = []
    for each in given:
        results.append(_result(each, new.get(each.delivery_id)))
        if each.delivery_id in new:
            # A second report of the same in one request is known.
            new[each.delivery_id].discard(each.event)
    return ReceiptResults(results=results)


def _result(receipt: Receipt, new: AbstractSet[ReceiptEvent] | None) -> ReceiptResult:
    status = "not_found" if new is None else "recorded" if receipt.event in new else "known"
    return ReceiptResult(delivery_id=receipt.delivery_id, event=receipt.event, status=status)
