"""The URLs of the views."""

from django.urls import path

from examples.django_shop.orders import views

urlpatterns = [
    path("orders", views.place),
    path("orders/<int:number>/ship", views.ship),
]
