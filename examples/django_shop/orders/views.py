"""The shop's pages, reduced to their transactions."""

import json
from decimal import Decimal

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_POST

from examples.django_shop.orders import notify
from examples.django_shop.orders.models import Order
from examples.django_shop.orders.payment import DeclinedError, charge


@require_POST
def place(request: HttpRequest) -> JsonResponse:
    """Place an order. The mail is part of the transaction: it is sent if, and only if, it commits."""
    wanted = json.loads(request.body)
    try:
        with transaction.atomic():
            order = Order.objects.create(
                email=wanted["email"], item=wanted["item"], amount=Decimal(wanted["amount"])
            )
            notify.placed(order)
            charge(wanted["card"], order.amount)
    except DeclinedError as error:
        return JsonResponse({"detail": str(error)}, status=402)
    return JsonResponse({"order_number": order.pk}, status=201)


@require_POST
@transaction.atomic
def ship(_: HttpRequest, number: int) -> JsonResponse:
    """Ship an order, once only, however often it is requested."""
    order = get_object_or_404(Order.objects.select_for_update(), pk=number)
    if order.shipped_at is None:
        order.shipped_at = timezone.now()
        order.save()
        notify.shipped(order)
    return JsonResponse({"order_number": order.pk})
